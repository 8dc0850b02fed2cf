# frozen_string_literal: true

require "net/http"
require "openssl"
require "resolv"
require "socket"

# Servers of these specs, on loopback alone: each a thread of the parent, gone with its block.
module LocalServers
  module_function

  # Calls the block with each connection in a thread, yields the server.
  def serving(server, handler)
    thread = Thread.new do
      loop { (connection = accept(server)) && answer(connection, handler) }
    rescue IOError, Errno::EBADF
      nil
    end
    yield server
  ensure
    thread&.kill&.join
    server.close unless server.closed?
  end

  # A client that refuses the handshake is its own business.
  def accept(server)
    server.accept
  rescue OpenSSL::SSL::SSLError, Errno::ECONNRESET
    nil
  end

  def answer(connection, handler)
    handler.call(connection)
  rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
    nil
  ensure
    connection.close
  end

  HTTP = lambda do |connection|
    nil until ["\r\n", nil].include?(connection.gets)
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
  end

  ECHO = ->(connection) { connection.write(connection.readpartial(100)) }

  # A key and a certificate that it signed for itself.
  def identity
    key = OpenSSL::PKey::EC.generate("prime256v1")
    certificate = OpenSSL::X509::Certificate.new
    certificate.version = 2
    certificate.serial = 1
    certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=agent_jail")
    certificate.public_key = key
    certificate.not_before = Time.now - 60
    certificate.not_after = Time.now + 3600
    extend_certificate(certificate)
    [key, certificate.sign(key, OpenSSL::Digest.new("SHA256"))]
  end

  def extend_certificate(certificate)
    factory = OpenSSL::X509::ExtensionFactory.new(certificate, certificate)
    { "basicConstraints" => "CA:TRUE", "subjectAltName" => "IP:127.0.0.1,DNS:localhost" }
      .each { |name, value| certificate.add_extension(factory.create_extension(name, value)) }
  end

  def tls(server, key, certificate)
    context = OpenSSL::SSL::SSLContext.new
    context.key = key
    context.cert = certificate
    OpenSSL::SSL::SSLServer.new(server, context)
  end

  # Answers every question for an address with 127.0.0.9, yields the port.
  def name_server
    socket = UDPSocket.new.tap { |udp| udp.bind("127.0.0.1", 0) }
    thread = Thread.new { loop { answer_question(socket) } }
    yield socket.local_address.ip_port
  ensure
    thread&.kill&.join
    socket.close
  end

  def answer_question(socket)
    bytes, from = socket.recvfrom(512)
    answer = Resolv::DNS::Message.decode(bytes)
    answer.qr = 1
    answer.each_question { |name, _| answer.add_answer(name, 60, Resolv::DNS::Resource::IN::A.new("127.0.0.9")) }
    socket.send(answer.encode, 0, from[3], from[1])
  end
end

RSpec.describe AgentJail, "and the network", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  attr_reader :server, :port

  around do |example|
    TCPServer.open("127.0.0.1", 0) do |server|
      @server = server
      @port = server.local_address.ip_port
      example.run
    end
  end

  # How many connections wait to be accepted.
  def callers
    count = 0
    while (connection = server.accept_nonblock(exception: false)) != :wait_readable
      connection.close
      count += 1
    end
    count
  end

  def network_error(words)
    an_instance_of(AgentJail::NetworkError).and(having_attributes(message: words))
  end

  describe "off, which is the default" do
    # Words that the error names, and the act. Those of the second list need a privilege or a part of the kernel.
    acts = {
      "a TCP connection" => [/127\.0\.0\.1.*port/, -> { TCPSocket.new("127.0.0.1", port) }],
      "a TCP connection by address" =>
        [/connect\(2\) for 127|socket\(2\)/, -> { Addrinfo.tcp("127.0.0.1", port).connect.close }],
      "a TCP server" => [/127\.0\.0\.1/, -> { TCPServer.new("127.0.0.1", 0) }],
      "a TCP socket" => [/socket\(2\)/, -> { Socket.new(:INET, :STREAM) }],
      "a UDP socket" => [/udp/, -> { UDPSocket.new.send("x", 0, "127.0.0.1", port) }],
      "a Unix socket by path" => [/socket\(2\) for .*listening/, -> { UNIXSocket.new(at("listening")) }],
      "an abstract Unix socket" => [/socket\(2\)/, -> { Addrinfo.unix("\0agent_jail_#{dir}").connect.close }],
      "a Unix datagram by path" =>
        [/socket\(2\)/, -> { Socket.new(:UNIX, :DGRAM).send("x", 0, Socket.sockaddr_un(at("datagrams"))) }],
      "an abstract Unix datagram" =>
        [/socket\(2\)/, -> { Socket.new(:UNIX, :DGRAM).send("x", 0, Socket.sockaddr_un("\0datagrams#{dir}")) }],
      "a Unix server" => [/socket\(2\)/, -> { UNIXServer.new(at("own#{Process.pid}")) }],
      "a datagram from a socket pair" =>
        [/socketpair/, -> { UNIXSocket.pair(:DGRAM).first.send("x", 0, Socket.sockaddr_un(at("datagrams"))) }],
      "an HTTP request" =>
        [/Failed to open TCP connection to 127\.0\.0\.1:\d+/, -> { Net::HTTP.get(URI("http://127.0.0.1:#{port}/")) }],
      "an HTTP request by name" =>
        [/Failed to open TCP connection to localhost:\d+/, -> { Net::HTTP.get(URI("http://localhost:#{port}/")) }]
    }

    # Everything that the acts talk to.
    around do |example|
      stream, datagram, abstract_stream, abstract_datagram =
        [[:STREAM, at("listening")], [:DGRAM, at("datagrams")], [:STREAM, "\0agent_jail_#{dir}"],
         [:DGRAM, "\0datagrams#{dir}"]].map do |type, name|
        Socket.new(:UNIX, type).tap { |socket| socket.bind(Socket.sockaddr_un(name)) }
      end
      [stream, abstract_stream].each { |socket| socket.listen(5) }
      @listening = [stream, abstract_stream]
      @datagrams = [datagram, abstract_datagram]
      example.run
    ensure
      [*@listening, *@datagrams].each(&:close)
    end

    # True when somebody connected or sent something.
    def reached?
      callers.positive? || @listening.any? { |socket| socket.accept_nonblock(exception: false) != :wait_readable } ||
        @datagrams.any? { |socket| socket.recv_nonblock(9, exception: false) != :wait_readable }
    end

    # A server's part of a request, for those that wait for an answer.
    def answering_one
      thread = Thread.new { server.accept.then { |connection| LocalServers.answer(connection, LocalServers::HTTP) } }
      yield
    ensure
      thread.kill.join
    end

    acts.each do |what, (words, act)|
      it "refuses #{what}, and names it" do
        error = jailed { instance_exec(&act) }

        expect(error).to match(network_error(words))
        expect(reached?).to be(false)
        expect(answering_one { objection { instance_exec(&act) } }).to be_nil
      end
    end

    {
      "a raw socket" => -> { Socket.new(:INET, :RAW, Socket::IPPROTO_ICMP) },
      "netlink" => -> { Socket.new(16, :RAW, 0) },
      "multipath TCP" => -> { Socket.new(:INET, :STREAM, 262) },
      "vsock" => -> { Socket.new(40, :STREAM, 0) },
      "the kernel's ciphers" => -> { Socket.new(38, :SEQPACKET, 0) },
      "packets" => -> { Socket.new(17, :RAW, 0) }
    }.each do |what, act|
      it "refuses #{what}, and names the call" do
        expect(jailed(&act)).to match(network_error(/socket\(2\)/))
        why = objection(&act)
        skip("no #{what} here without a jail: #{why}") if why
      end
    end

    it "refuses every family there may ever be, at any type" do
      answers = jailed do
        (0..63).to_a.product([1, 2, 3, 4, 5]).map { |family, type| kernel(:socket, family, type, 0) }
      end

      expect(answers.uniq).to eq(["ENETUNREACH"])
      expect(unjailed { kernel(:socket, 2, 1, 0) }).to be_an(Integer)
    end

    it "has no io_uring, whose sockets no filter sees" do
      expect { kernel(:io_uring_setup, 2, "\0" * 120) }.to be_answered("ENOSYS").without_one(3..)
    end

    # What a jail and a plain fork make of a TCP socket that they inherit unconnected, and the connections that came.
    def with_inherited_socket
      runs = [->(socket, act) { jailed(inherit: socket, &act) }, ->(_, act) { unjailed(&act) }]
      address = Addrinfo.tcp("127.0.0.1", port).to_sockaddr
      runs.map do |run|
        Socket.open(:INET, :STREAM) do |socket|
          [run.call(socket, -> { yield socket, address }), callers]
        end
      end
    end

    {
      "connect" => ->(socket, address) { socket.connect(address) },
      "sendto and MSG_FASTOPEN" => ->(socket, address) { socket.send("x", 0x2000_0000, address) },
      "sendmsg and MSG_FASTOPEN" => ->(socket, address) { socket.sendmsg("x", 0x2000_0000, address) },
      "TCP_FASTOPEN_CONNECT" => lambda do |socket, address|
        socket.setsockopt(:TCP, 30, 1)
        socket.connect(address)
        socket.write("x")
      end
    }.each do |what, act|
      it "opens no connection of an inherited socket by #{what}" do
        refused, made = with_inherited_socket { |socket, address| instance_exec(socket, address, &act) }

        expect([refused.last, made.last]).to eq([0, 1])
        expect(refused.first).to match(network_error(/connect|send/))
      end
    end

    describe "names" do
      {
        "getaddrinfo" => -> { Addrinfo.getaddrinfo("localhost", 80) },
        "Socket.getaddrinfo" => -> { Socket.getaddrinfo("localhost", 80) },
        "IPSocket.getaddress" => -> { IPSocket.getaddress("localhost") },
        "Resolv" => -> { Resolv.getaddress("localhost") }
      }.each do |what, act|
        it "are not resolved by #{what}" do
          expect(&act).to be_refused.as(network_error(/getaddrinfo|localhost|hosts/))
        end
      end

      it "are not asked for at a name server" do
        LocalServers.name_server do |name_port|
          act = lambda do
            Resolv::DNS.open(nameserver_port: [["127.0.0.1", name_port]], search: [], ndots: 1) do |dns|
              dns.getaddress("agent-jail.example").to_s
            end
          end

          expect(jailed(&act)).to match(network_error(/socket\(2\)|getifaddrs/))
          expect(unjailed(&act)).to eq("127.0.0.9")
        end
      end
    end

    describe "wrapped by a library" do
      {
        "Net::OpenTimeout" => -> { raise Net::OpenTimeout, "execution expired" },
        "SocketError" => -> { raise SocketError, "Failed to open TCP connection to api.example:443" },
        "an error of its own" => -> { raise "the service is away" },
        "a chain of errors" => lambda do
          raise ArgumentError, "inner"
        rescue ArgumentError
          raise "the service is away"
        end
      }.each do |what, wrap|
        it "as #{what}, is a NetworkError still, with the words of both" do
          act = lambda do
            TCPSocket.new("127.0.0.1", port).close
          rescue SystemCallError
            wrap.call
          end

          expect(&act).to be_refused.as(network_error(/expired|api\.example|away/))
        end
      end

      it "and rescued, is no error" do
        act = lambda do
          TCPSocket.new("127.0.0.1", port).close
          "connected"
        rescue Errno::ENETUNREACH
          "did without"
        end

        expect([jailed(&act), unjailed(&act)]).to eq(["did without", "connected"])
      end

      it "is not taken for a file's refusal, nor the other way about" do
        path = file("secret")
        refusals = [-> { File.read(path) }, -> { TCPSocket.new("127.0.0.1", port) }].map { |act| jailed(&act).class }

        expect(refusals).to eq([AgentJail::FilesystemError, AgentJail::NetworkError])
      end
    end

    it "lets socket pairs and pipes work" do
      carried = jailed do
        [UNIXSocket.pair, UNIXSocket.pair(:SEQPACKET), IO.pipe.reverse, Socket.pair(:UNIX, :STREAM)].map do |from, to|
          from.syswrite("within")
          to.sysread(10)
        end
      end

      expect(carried).to eq(["within"] * 4)
    end
  end

  describe "with network: true" do
    it "connects by TCP, and is answered" do
      LocalServers.serving(server, LocalServers::ECHO) do
        act = lambda do
          TCPSocket.open("127.0.0.1", port) { |socket| socket.write("hello") && socket.read }
        end

        expect([jailed(network: true, &act), jailed(&act)]).to match(["hello", network_error(/port #{port}/)])
      end
    end

    it "serves, and sends datagrams" do
      served = jailed(network: true) do
        TCPServer.open("127.0.0.1", 0) do |own|
          TCPSocket.open("127.0.0.1", own.local_address.ip_port) { own.accept.close }
        end
        one, two = Array.new(2) { UDPSocket.new.tap { |udp| udp.bind("127.0.0.1", 0) } }
        one.send("datagram", 0, *two.addr.values_at(3, 1)) && two.recv(20)
      end

      expect(served).to eq("datagram")
    end

    it "resolves names" do
      names = jailed(network: true) do
        [Addrinfo.getaddrinfo("localhost", 80).map(&:ip_address).uniq, Resolv.getaddress("localhost")]
      end

      expect(names.flatten).to all(match(/\A127\.|\A::1\z/))
    end

    it "asks a name server" do
      LocalServers.name_server do |name_port|
        answer = jailed(network: true) do
          Resolv::DNS.open(nameserver_port: [["127.0.0.1", name_port]], search: [], ndots: 1) do |dns|
            dns.getaddress("agent-jail.example").to_s
          end
        end

        expect(answer).to eq("127.0.0.9")
      end
    end

    it "speaks to a Unix server, by path and by an abstract name" do
      names = [at("echo"), "\0agent_jail_echo#{dir}"]
      echoed = names.map do |name|
        LocalServers.serving(Addrinfo.unix(name).listen.tap do |socket|
          with_plain_accept(socket)
        end, LocalServers::ECHO) do
          jailed(network: true, fs_allow: dir) { Addrinfo.unix(name).connect { |unix| unix.write("hi") && unix.read } }
        end
      end

      expect(echoed).to eq(%w[hi hi])
    end

    # Socket#accept gives the address too.
    def with_plain_accept(socket)
      socket.define_singleton_method(:accept) { super().first }
    end

    it "has no families that programs do not need" do
      act = -> { [38, 40, 17].map { |family| kernel(:socket, family, 3, 0) } }

      expect(jailed(network: true, &act)).to eq(["EAFNOSUPPORT"] * 3)
      expect(unjailed(&act).uniq).not_to eq(["EAFNOSUPPORT"])
    end

    describe "and TLS" do
      attr_reader :certificate

      around do |example|
        key, @certificate = LocalServers.identity
        LocalServers.serving(LocalServers.tls(server, key, certificate), LocalServers::HTTP) { example.run }
      end

      # A GET of the server by a name that its certificate has.
      def get(host, **options)
        Net::HTTP.start(host, port, use_ssl: true, open_timeout: 20, **options) { |http| http.get("/").body }
      end

      it "trusts a certificate that it is given, and no other" do
        store = OpenSSL::X509::Store.new.add_cert(certificate)
        bodies = %w[127.0.0.1 localhost].map { |host| jailed(network: true) { get(host, cert_store: store) } }
        error = jailed(network: true) { get("127.0.0.1") }

        expect(bodies).to eq(%w[hello hello])
        expect(error).to be_a(AgentJail::SandboxError).and have_attributes(original_class: "OpenSSL::SSL::SSLError")
      end

      it "trusts a file that it may read" do
        path = file("ca.pem", certificate.to_pem)

        expect(jailed(network: true, fs_read_allow: path) { get("127.0.0.1", ca_file: path) }).to eq("hello")
      end

      it "trusts what the process's own certificates are, wherever they lie" do
        ENV["SSL_CERT_FILE"] = file("default.pem", certificate.to_pem)

        body = jailed(network: true) { get("127.0.0.1", cert_store: OpenSSL::X509::Store.new.tap(&:set_default_paths)) }

        expect(body).to eq("hello")
      ensure
        ENV.delete("SSL_CERT_FILE")
      end

      it "reads the system's certificates" do
        paths = [OpenSSL::X509::DEFAULT_CERT_FILE, *Dir["#{OpenSSL::X509::DEFAULT_CERT_DIR}/*.0"].first(3)]
        paths.select! { |path| File.exist?(path) }
        skip "no certificates are installed here" if paths.empty?

        expect(jailed(network: true) do
          paths.map do |path|
            File.read(path).include?("BEGIN CERTIFICATE")
          end
        end).to all(be true)
        expect(jailed(network: true) { OpenSSL::X509::Store.new.tap(&:set_default_paths) && "loaded" }).to eq("loaded")
      end

      it "is not had without it" do
        store = OpenSSL::X509::Store.new.add_cert(certificate)

        expect(jailed { get("127.0.0.1", cert_store: store) }).to match(network_error(/127\.0\.0\.1:#{port}/))
      end
    end
  end
end

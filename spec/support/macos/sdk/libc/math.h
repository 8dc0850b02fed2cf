#ifndef AGENT_JAIL_STUB_LIBC_MATH_H
#define AGENT_JAIL_STUB_LIBC_MATH_H

double ceil(double number);
double fmax(double one, double other);

#endif

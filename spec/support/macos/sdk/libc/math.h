#ifndef AGENT_JAIL_STUB_LIBC_MATH_H
#define AGENT_JAIL_STUB_LIBC_MATH_H

#define INFINITY __builtin_inff()

double ceil(double number);
double fmax(double one, double other);

#endif

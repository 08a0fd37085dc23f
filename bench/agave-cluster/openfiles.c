/* agave-validator insists on 1,000,000 open files. Where the hard limit is lower and may not be
 * raised, this library, preloaded, makes it believe that it has them: a cluster of one node opens a
 * few hundred. All other limits are the true ones. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN_FILES = 7, ENOUGH = 1000000 };
struct limit { unsigned long soft, hard; };

int getrlimit(int resource, struct limit *limit) {
    long result = syscall(SYS_prlimit64, 0, resource, 0, limit);
    if (result == 0 && resource == OPEN_FILES)
        limit->soft = limit->hard = ENOUGH;
    return (int)result;
}

int setrlimit(int resource, const struct limit *limit) {
    return resource == OPEN_FILES ? 0 : (int)syscall(SYS_prlimit64, 0, resource, limit, 0);
}

int getrlimit64(int resource, struct limit *limit) { return getrlimit(resource, limit); }
int setrlimit64(int resource, const struct limit *limit) { return setrlimit(resource, limit); }

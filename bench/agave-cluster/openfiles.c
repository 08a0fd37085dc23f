/* agave-validator insists on 1,000,000 open files. Where the hard limit is lower and may not be
 * raised, this library, preloaded, makes it believe that it has them: a cluster of one node opens a
 * few hundred. It declares what it replaces by itself, for 64-bit Linux. */

struct limit { unsigned long soft, hard; };

int getrlimit(int resource, struct limit *limit) {
    (void)resource;
    limit->soft = limit->hard = 1000000;
    return 0;
}

int setrlimit(int resource, const struct limit *limit) { (void)resource; (void)limit; return 0; }

int getrlimit64(int resource, struct limit *limit) { return getrlimit(resource, limit); }
int setrlimit64(int resource, const struct limit *limit) { return setrlimit(resource, limit); }

//! Checks of processors, memory, and kernel settings that validators need.

use unsnap_cli::units::{number, size};

use crate::doctor::{
    check::{Check, Verdict},
    facts::{Memory, Processor, Sysctls},
};

/// Settings that validators need (Agave's documentation, /etc/sysctl.d/21-agave-validator.conf).
const MAX_MAP_COUNT: u64 = 1_000_000;
const NR_OPEN: u64 = 1_000_000;

pub fn processors(processor: &Processor) -> Check {
    let Processor { model, online, allowed, usable, .. } = processor;
    let model = model.as_deref().unwrap_or("unknown model");
    let found = format!("{usable} of {online} usable ({model})");
    let check = Check::ok("processors", found);
    if allowed < online {
        let why = format!("this process may run on {allowed} of them");
        let remedy = "CPUAffinity= (empty) in the unit, or taskset with more processors";
        return check.but(Verdict::Note, why).remedy(remedy);
    }
    if *online == 1 {
        let why = "reading, decoding and writing share one processor";
        return check.but(Verdict::Warning, why).remedy("use more processors");
    }
    check
}

pub fn vectors(processor: &Processor) -> Check {
    let id = "vector features";
    let has = |name| processor.features.contains(&name);
    if processor.features.is_empty() {
        let why = "--verify accounts hashes one account at a time";
        return Check::ok(id, "none").but(Verdict::Note, why);
    }
    let check = Check::ok(id, processor.features.join(" "));
    if has("avx512f") || has("neon") {
        return check;
    }
    if has("avx2") {
        let why = "--verify accounts hashes in AVX2 lanes; AVX-512 has twice as many";
        return check.but(Verdict::Note, why);
    }
    check.but(Verdict::Note, "--verify accounts hashes in narrow lanes")
}

pub fn governor(processor: &Processor) -> Check {
    let id = "frequency";
    match processor.governor.as_deref() {
        None => Check::ok(id, "not controlled by this kernel"),
        Some(governor @ "powersave") => Check::ok(id, governor)
            .but(Verdict::Warning, "processors may stay slow under load")
            .remedy("cpupower frequency-set -g performance"),
        Some(governor) => Check::ok(id, governor),
    }
}

pub fn memory(memory: &Memory) -> Check {
    let Memory { total_bytes, available_bytes, needed_bytes, .. } = memory;
    let found = format!(
        "{} of {} available; a run reserves {}",
        size(*available_bytes),
        size(*total_bytes),
        size(*needed_bytes)
    );
    let check = Check::ok("memory", found);
    if available_bytes < needed_bytes {
        let why = "a run would push other data out of memory, or be killed";
        return check
            .but(Verdict::Problem, why)
            .remedy("free memory, or use --memory-budget 256MiB");
    }
    check
}

pub fn huge_pages(memory: &Memory) -> Check {
    let id = "transparent huge pages";
    match memory.transparent.as_deref() {
        Some(mode @ ("always" | "madvise")) => Check::ok(id, mode),
        mode => Check::ok(id, mode.unwrap_or("none"))
            .but(Verdict::Warning, "buffers consist of small pages, which costs processor time")
            .remedy("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
    }
}

pub fn reserved_pages(memory: &Memory) -> Check {
    let Memory { huge_free, huge_total, huge_page_bytes, needed_bytes, .. } = memory;
    let id = "reserved huge pages";
    if *huge_total == 0 {
        return Check::ok(id, "none; none needed");
    }
    let found = format!("{huge_free} of {huge_total} free, {} each", size(*huge_page_bytes));
    let check = Check::ok(id, found);
    if huge_free.saturating_mul(*huge_page_bytes) < *needed_bytes {
        let why = "too few for --hugetlb; unsnap uses transparent huge pages instead";
        return check.but(Verdict::Note, why);
    }
    check.but(Verdict::Note, "unsnap uses them only with --hugetlb, which does not make it faster")
}

pub fn max_map_count(sysctls: &Sysctls) -> Check {
    sysctl("vm.max_map_count", sysctls.max_map_count, MAX_MAP_COUNT)
}

pub fn nr_open(sysctls: &Sysctls) -> Check {
    sysctl("fs.nr_open", sysctls.nr_open, NR_OPEN)
}

/// Compares a setting with the minimum that a validator needs.
fn sysctl(id: &'static str, found: Option<u64>, needed: u64) -> Check {
    let Some(found) = found else {
        return Check::ok(id, "unknown").but(Verdict::Note, "/proc/sys cannot be read");
    };
    let check = Check::ok(id, number(found));
    if found >= needed {
        return check;
    }
    let why = format!("enough for unsnap; a validator needs {}", number(needed));
    check.but(Verdict::Note, why).remedy(format!("sysctl {id}={needed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor(online: usize, allowed: usize, features: &[&'static str]) -> Processor {
        let features = features.to_vec();
        Processor { online, allowed, usable: allowed, features, ..Processor::default() }
    }

    #[test]
    fn processors_are_judged_by_number_and_kind() {
        assert_eq!(processors(&processor(8, 8, &[])).verdict, Verdict::Ok);
        assert_eq!(processors(&processor(8, 2, &[])).verdict, Verdict::Note);
        assert_eq!(processors(&processor(1, 1, &[])).verdict, Verdict::Warning);
        let vectors = |features: &[&'static str]| vectors(&processor(1, 1, features)).verdict;
        assert_eq!(vectors(&["sse4.2", "avx2", "avx512f"]), Verdict::Ok);
        assert_eq!(vectors(&["neon"]), Verdict::Ok);
        assert_eq!(vectors(&["avx2"]), Verdict::Note);
        assert_eq!(vectors(&[]), Verdict::Note);
        let slow = Processor { governor: Some("powersave".to_owned()), ..Processor::default() };
        assert_eq!(governor(&slow).verdict, Verdict::Warning);
        assert_eq!(governor(&Processor::default()).verdict, Verdict::Ok);
    }

    #[test]
    fn memory_is_compared_with_the_needs_of_a_run() {
        let mut facts = Memory { available_bytes: 10, needed_bytes: 5, ..Memory::default() };
        assert_eq!(memory(&facts).verdict, Verdict::Ok);
        facts.needed_bytes = 11;
        assert_eq!(memory(&facts).verdict, Verdict::Problem);
    }

    #[test]
    fn transparent_huge_pages_are_recommended_and_reserved_ones_are_not() {
        let with = |mode: Option<&str>| {
            let transparent = mode.map(str::to_owned);
            huge_pages(&Memory { transparent, ..Memory::default() }).verdict
        };
        assert_eq!(with(Some("madvise")), Verdict::Ok);
        assert_eq!((with(Some("never")), with(None)), (Verdict::Warning, Verdict::Warning));
        assert_eq!(reserved_pages(&Memory::default()).verdict, Verdict::Ok);
        let few = Memory {
            huge_total: 4,
            huge_free: 4,
            huge_page_bytes: 2 << 20,
            needed_bytes: 1 << 30,
            ..Memory::default()
        };
        assert!(reserved_pages(&few).consequence.unwrap().contains("too few"));
    }

    #[test]
    fn needs_of_a_validator_are_notes() {
        let sysctls = Sysctls { max_map_count: Some(65_530), nr_open: Some(1_048_576) };
        let check = max_map_count(&sysctls);
        assert_eq!(check.verdict, Verdict::Note);
        assert_eq!(check.remedy.unwrap(), "sysctl vm.max_map_count=1000000");
        assert_eq!(nr_open(&sysctls).verdict, Verdict::Ok);
    }
}

//! Processors, memory, and what validators want of the kernel.

use super::size;
use crate::doctor::{
    check::{Check, Verdict},
    facts::{Memory, Processor, Sysctls},
};

/// What validators want (Agave's documentation, /etc/sysctl.d/21-agave-validator.conf).
const MAX_MAP_COUNT: u64 = 1_000_000;
const NR_OPEN: u64 = 1_000_000;

pub fn processors(processor: &Processor) -> Check {
    let Processor { model, online, allowed, usable, .. } = processor;
    let model = model.as_deref().unwrap_or("model not known");
    let found = format!("{usable} of {online} usable ({model})");
    let check = Check::ok("processors", found);
    if allowed < online {
        let why = format!("this process may run on {allowed} of them");
        let remedy = "CPUAffinity= (empty) in the unit, or taskset with more of them";
        return check.but(Verdict::Note, why).remedy(remedy);
    }
    if *online == 1 {
        let why = "reading, decoding and writing take turns";
        return check.but(Verdict::Warning, why).remedy("more processors");
    }
    check
}

pub fn vectors(processor: &Processor) -> Check {
    let id = "vector features";
    let has = |name| processor.features.contains(&name);
    if processor.features.is_empty() {
        let why = "accounts are hashed one at a time (--verify accounts)";
        return Check::ok(id, "none").but(Verdict::Note, why);
    }
    let check = Check::ok(id, processor.features.join(" "));
    if has("avx512f") || has("neon") {
        return check;
    }
    if has("avx2") {
        let why = "accounts are hashed in lanes of AVX2; AVX-512 would have twice as many";
        return check.but(Verdict::Note, why);
    }
    check.but(Verdict::Note, "accounts are hashed in narrow lanes (--verify accounts)")
}

pub fn governor(processor: &Processor) -> Check {
    let id = "frequency";
    match processor.governor.as_deref() {
        None => Check::ok(id, "not up to this kernel"),
        Some(governor @ "powersave") => Check::ok(id, governor)
            .but(Verdict::Warning, "processors may stay slow while there is work")
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
        let why = "a run would push other things out of memory, or be killed";
        return check.but(Verdict::Problem, why).remedy("--memory-budget 256MiB, or free memory");
    }
    check
}

pub fn huge_pages(memory: &Memory) -> Check {
    let id = "transparent huge pages";
    match memory.transparent.as_deref() {
        Some(mode @ ("always" | "madvise")) => Check::ok(id, mode),
        mode => Check::ok(id, mode.unwrap_or("none"))
            .but(Verdict::Warning, "buffers are made of small pages, which costs processor time")
            .remedy("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
    }
}

pub fn reserved_pages(memory: &Memory) -> Check {
    let Memory { huge_free, huge_total, huge_page_bytes, needed_bytes, .. } = memory;
    let id = "reserved huge pages";
    if *huge_total == 0 {
        return Check::ok(id, "none, and none are needed");
    }
    let found = format!("{huge_free} of {huge_total} free, of {} each", size(*huge_page_bytes));
    let check = Check::ok(id, found);
    if huge_free.saturating_mul(*huge_page_bytes) < *needed_bytes {
        let why = "too few for --hugetlb; transparent ones are used instead";
        return check.but(Verdict::Note, why);
    }
    check.but(Verdict::Note, "unsnap uses them with --hugetlb only, and is no faster for it")
}

pub fn max_map_count(sysctls: &Sysctls) -> Check {
    sysctl("vm.max_map_count", sysctls.max_map_count, MAX_MAP_COUNT)
}

pub fn nr_open(sysctls: &Sysctls) -> Check {
    sysctl("fs.nr_open", sysctls.nr_open, NR_OPEN)
}

/// One that a validator wants to be at least so much.
fn sysctl(id: &'static str, found: Option<u64>, wanted: u64) -> Check {
    let Some(found) = found else {
        return Check::ok(id, "not known").but(Verdict::Note, "/proc/sys cannot be read here");
    };
    let check = Check::ok(id, found.to_string());
    if found >= wanted {
        return check;
    }
    let why = format!("enough for unsnap; a validator wants {wanted}");
    check.but(Verdict::Note, why).remedy(format!("sysctl {id}={wanted}"))
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
    fn memory_is_judged_by_what_a_run_needs() {
        let mut facts = Memory { available_bytes: 10, needed_bytes: 5, ..Memory::default() };
        assert_eq!(memory(&facts).verdict, Verdict::Ok);
        facts.needed_bytes = 11;
        assert_eq!(memory(&facts).verdict, Verdict::Problem);
    }

    #[test]
    fn huge_pages_are_wanted_but_not_reserved() {
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
    fn what_a_validator_wants_is_noted() {
        let sysctls = Sysctls { max_map_count: Some(65_530), nr_open: Some(1_048_576) };
        let check = max_map_count(&sysctls);
        assert_eq!(check.verdict, Verdict::Note);
        assert_eq!(check.remedy.unwrap(), "sysctl vm.max_map_count=1000000");
        assert_eq!(nr_open(&sysctls).verdict, Verdict::Ok);
    }
}

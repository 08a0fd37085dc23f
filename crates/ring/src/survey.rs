//! Survey of the io_uring features that engines use on this kernel, made without any I/O.

use io_uring::{Parameters, Probe};
use unsnap_arena::Arena;

use crate::{
    UringRefused,
    uring::{OPERATIONS, build_ring, register, restrict},
};

/// Bytes registered for a trial: within any limit under which a ring can exist. Before Linux 5.12
/// rings themselves counted towards the locked-memory limit, 64 KiB by default.
const TRIAL_BYTES: usize = 16 << 10;

/// Number of entries of a ring as engines set it up by default: up to 63 operations in flight, and a
/// wake-up.
const PROBED_ENTRIES: u32 = 64;

/// Features that a ring offers to engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UringSurvey {
    /// Names of the `IORING_FEAT_*` flags that the kernel announces, without the prefix.
    pub features: Vec<&'static str>,
    /// Operations that engines need and the kernel lacks. Lists all that they need if the kernel
    /// cannot be asked (before Linux 5.6).
    pub missing_operations: Vec<&'static str>,
    /// Whether a ring can be restricted to the operations that engines submit (Linux 5.10).
    pub restricts: bool,
    /// Whether a few pages can be registered. The locked-memory limit decides how many more can.
    pub registers: bool,
}

/// Checks whether the kernel allows io_uring, by setting up a ring like an engine's and closing it.
/// A smaller one could be within the locked-memory limit, to which rings count before Linux 5.12.
pub fn probe_uring() -> Result<(), UringRefused> {
    build_ring(PROBED_ENTRIES, None).map(drop)
}

/// Sets up a ring like an engine's, probes its features and closes it.
pub fn survey_uring() -> Result<UringSurvey, UringRefused> {
    // Declared before the ring, so it is dropped after it.
    let arena = Arena::builder().bytes(TRIAL_BYTES).populate(false).build();
    let ring = build_ring(2, None)?;
    let mut probe = Probe::new();
    let probed = ring.submitter().register_probe(&mut probe).is_ok();
    let has = |code| probed && probe.is_supported(code);
    let missing = OPERATIONS.into_iter().filter(|(_, code)| !has(*code));
    let missing_operations = missing.map(|(name, _)| name).collect();
    let restricts = restrict(&ring).is_ok();
    let registers = arena.as_ref().is_ok_and(|arena| {
        // SAFETY: the arena is dropped after the ring.
        unsafe { register(&ring, &arena.ranges()) }.is_ok()
    });
    let features = features(ring.params());
    Ok(UringSurvey { features, missing_operations, restricts, registers })
}

fn features(parameters: &Parameters) -> Vec<&'static str> {
    [
        ("SINGLE_MMAP", parameters.is_feature_single_mmap()),
        ("NODROP", parameters.is_feature_nodrop()),
        ("SUBMIT_STABLE", parameters.is_feature_submit_stable()),
        ("FAST_POLL", parameters.is_feature_fast_poll()),
        ("EXT_ARG", parameters.is_feature_ext_arg()),
        ("NATIVE_WORKERS", parameters.is_feature_native_workers()),
        ("RSRC_TAGS", parameters.is_feature_resource_tagging()),
        ("LINKED_FILE", parameters.is_feature_linked_file()),
        ("MIN_TIMEOUT", parameters.is_feature_min_timeout()),
        ("NO_IOWAIT", parameters.is_feature_no_iowait()),
    ]
    .into_iter()
    .filter_map(|(name, has)| has.then_some(name))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineConfig, EngineKind, probe_uring};
    use unsnap_testkit::skip::skip_unsupported;

    #[test]
    fn the_survey_agrees_with_an_engine() {
        let survey = survey_uring();
        assert_eq!(survey.is_ok(), probe_uring().is_ok());
        let Ok(survey) = survey else { return skip_unsupported("no io_uring") };
        let config = EngineConfig {
            kind: EngineKind::Uring,
            capacity: 2,
            workers: 1,
            register: None,
            attach: None,
            priority: None,
            device: 0,
        };
        let engine = config.open().unwrap();
        assert_eq!(engine.ring_restricted(), Some(survey.restricts));
        // `OPENAT2` and the others arrived in the same release as the probe for them.
        assert!(survey.missing_operations.is_empty(), "{survey:?}");
        assert!(survey.features.contains(&"NODROP"), "{survey:?}");
    }
}

//! The decision what to give back to a validator when space is short, without I/O.

use unsnap_fastboot::Returnable;

/// One of the file systems that a target shares with its validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Bytes by which less is free than `min-free` says.
    pub missing: u64,
    /// What can be given back there.
    pub returnable: Returnable,
}

/// What to give back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GiveBack {
    /// The shadow of the state in use.
    pub shadow: bool,
    /// The ready state.
    pub ready: bool,
}

/// Decides what to give back. Space that is being freed already counts. The shadow goes first: it
/// serves only after a crash, and grows while the validator runs. The ready state goes if the shadow
/// is not enough. Nothing goes in vain: where space is short, it must free some.
pub fn decide(looks: &[Look]) -> GiveBack {
    // Bytes still missing, after these amounts, on some file system that holds `of`.
    let short = |less: fn(&Returnable) -> u64, of: fn(&Returnable) -> u64| {
        looks.iter().any(|Look { missing, returnable }| {
            of(returnable) > 0 && *missing > returnable.leaving.saturating_add(less(returnable))
        })
    };
    let shadow = short(|_| 0, |it| it.shadow);
    let ready =
        if shadow { short(|it| it.shadow, |it| it.ready) } else { short(|_| 0, |it| it.ready) };
    GiveBack { shadow, ready }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(missing: u64, leaving: u64, shadow: u64, ready: u64) -> Look {
        Look { missing, returnable: Returnable { leaving, shadow, ready, next: 0 } }
    }

    #[test]
    fn the_shadow_goes_first_and_the_ready_state_if_that_is_not_enough() {
        for (looks, shadow, ready) in [
            // Enough is free.
            (vec![look(0, 0, 500, 900)], false, false),
            (vec![], false, false),
            // The shadow is enough, or not.
            (vec![look(100, 0, 100, 900)], true, false),
            (vec![look(101, 0, 100, 900)], true, true),
            (vec![look(101, 0, 100, 0)], true, false),
            // A shadow that frees nothing stays.
            (vec![look(1, 0, 0, 900)], false, true),
            (vec![look(1, 0, 0, 0)], false, false),
            // What is being removed counts.
            (vec![look(100, 100, 500, 900)], false, false),
            (vec![look(100, 99, 500, 900)], true, false),
            (vec![look(100, 50, 49, 900)], true, true),
            // Each file system counts by itself.
            (vec![look(0, 0, 500, 900), look(1, 0, 0, 0)], false, false),
            (vec![look(0, 0, 500, 900), look(1, 0, 0, 1)], false, true),
            (vec![look(0, 0, 500, 900), look(1, 0, 1, 1)], true, false),
            (vec![look(9, 0, 9, 900), look(2, 0, 1, 1)], true, true),
            (vec![look(9, 0, 8, 0), look(2, 0, 2, 1)], true, false),
        ] {
            assert_eq!(decide(&looks), GiveBack { shadow, ready }, "{looks:?}");
        }
    }

    #[test]
    fn nothing_is_given_back_without_need_and_the_ready_state_never_alone_for_a_shadow() {
        let amounts = [0, 1, 7, 100];
        for missing in amounts {
            for leaving in amounts {
                for shadow in amounts {
                    for ready in amounts {
                        let given = decide(&[look(missing, leaving, shadow, ready)]);
                        assert!(!given.shadow || (shadow > 0 && missing > leaving));
                        assert!(!given.ready || (ready > 0 && missing > leaving + shadow));
                        assert!(!given.ready || given.shadow || shadow == 0);
                        // Without either, all that can be had is had.
                        let had = leaving
                            + if given.shadow { shadow } else { 0 }
                            + if given.ready { ready } else { 0 };
                        assert!(had >= missing || had == leaving + shadow + ready);
                    }
                }
            }
        }
    }
}

//! Slots and epochs.

/// Division of slots into epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochSchedule {
    /// Slots per epoch: 432,000 on mainnet. Not 0.
    pub slots_per_epoch: u64,
    /// Number of slots before an epoch at which its leader schedule is computed.
    pub leader_schedule_slot_offset: u64,
    /// Whether the first epochs are shorter: 32 slots, then 64, and so on.
    pub warmup: bool,
    /// The first epoch of full length. 0 without warm-up.
    pub first_normal_epoch: u64,
    /// The first slot of that epoch. 0 without warm-up.
    pub first_normal_slot: u64,
}

impl EpochSchedule {
    /// Returns the epoch of a slot.
    ///
    /// Like `solana-epoch-schedule` 3.2.0, this uses `first_normal_slot` instead of `warmup`, and
    /// saturates if the schedule is inconsistent.
    pub fn epoch(&self, slot: u64) -> u64 {
        if slot < self.first_normal_slot {
            // Epoch n of the warm-up begins at slot 32 * 2^n - 32.
            let doublings = slot.saturating_add(SLOTS_PER_EPOCH_MIN).ilog2();
            return u64::from(doublings - SLOTS_PER_EPOCH_MIN.ilog2());
        }
        let normal_epochs = (slot - self.first_normal_slot) / self.slots_per_epoch.max(1);
        self.first_normal_epoch.saturating_add(normal_epochs)
    }
}

/// Slots in the first epoch of a warm-up (`solana-epoch-schedule`).
const SLOTS_PER_EPOCH_MIN: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const MAINNET: EpochSchedule = EpochSchedule {
        slots_per_epoch: 432_000,
        leader_schedule_slot_offset: 432_000,
        warmup: false,
        first_normal_epoch: 0,
        first_normal_slot: 0,
    };

    /// The schedule that `EpochSchedule::custom(432_000, 432_000, true)` returns.
    const WARMUP: EpochSchedule = EpochSchedule {
        warmup: true,
        first_normal_epoch: 14,
        first_normal_slot: 524_256,
        ..MAINNET
    };

    #[test]
    fn epochs_of_equal_length() {
        for (slot, epoch) in
            [(0, 0), (431_999, 0), (432_000, 1), (350_000_000, 810), (u64::MAX, u64::MAX / 432_000)]
        {
            assert_eq!(MAINNET.epoch(slot), epoch, "{slot}");
        }
    }

    #[test]
    fn epochs_of_a_warm_up() {
        for (slot, epoch) in [
            (0, 0),
            (31, 0),
            (32, 1),
            (95, 1),
            (96, 2),
            (223, 2),
            (224, 3),
            (524_255, 13),
            (524_256, 14),
            (524_256 + 431_999, 14),
            (524_256 + 432_000, 15),
        ] {
            assert_eq!(WARMUP.epoch(slot), epoch, "{slot}");
        }
    }

    /// Counts epochs one by one instead of computing them.
    #[test]
    fn epochs_of_a_warm_up_one_by_one() {
        let (mut epoch, mut length, mut end) = (0, 32, 32);
        for slot in 0..WARMUP.first_normal_slot {
            if slot == end {
                epoch += 1;
                length *= 2;
                end += length;
            }
            assert_eq!(WARMUP.epoch(slot), epoch, "{slot}");
        }
        assert_eq!(epoch + 1, WARMUP.first_normal_epoch);
        assert_eq!(end, WARMUP.first_normal_slot);
    }

    #[test]
    fn schedules_that_make_no_sense() {
        let endless = EpochSchedule { first_normal_slot: u64::MAX, ..WARMUP };
        assert_eq!(endless.epoch(u64::MAX - 1), 58);
        let late = EpochSchedule { first_normal_epoch: u64::MAX, slots_per_epoch: 1, ..MAINNET };
        assert_eq!(late.epoch(u64::MAX), u64::MAX);
        assert_eq!(EpochSchedule { slots_per_epoch: 0, ..MAINNET }.epoch(7), 7);
    }
}

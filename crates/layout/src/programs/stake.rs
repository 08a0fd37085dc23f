//! Accounts of the stake program.
//!
//! ```text
//! kind 4 0 | rent reserve 4 | staker 12 | withdrawer 44 | lockup time 76 | lockup epoch 84
//! | custodian 92 | voter 124 | stake 156 | activation 164 | deactivation 172 | reserved 180
//! | credits 188 | flags 196                                             197 of 200 bytes
//! ```
//!
//! Kind 0 is not initialised, kind 1 ends before the voter, kind 3 held the rewards of a bank.

use super::fields::{Fields, Malformed};

/// Epoch of a stake that is not deactivated.
const NEVER: u64 = u64::MAX;

/// An initialised stake account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StakeData {
    /// Lamports that are never part of the stake.
    pub rent_exempt_reserve: u64,
    /// Who may delegate.
    pub staker: [u8; 32],
    /// Who may withdraw.
    pub withdrawer: [u8; 32],
    /// Unix time before which only the custodian may withdraw.
    pub lockup_timestamp: i64,
    /// Epoch before which only the custodian may withdraw.
    pub lockup_epoch: u64,
    /// Who may withdraw before that.
    pub custodian: [u8; 32],
    /// The delegation; `None` for none yet.
    pub delegation: Option<Delegation>,
}

/// Delegation of a stake to a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The vote account.
    pub voter: [u8; 32],
    /// Delegated lamports.
    pub stake: u64,
    /// Epoch of the activation; the largest number for stakes from genesis on.
    pub activation_epoch: u64,
    /// Epoch of the deactivation; `None` if there is none.
    pub deactivation_epoch: Option<u64>,
    /// Credits of the vote account when rewards were last paid.
    pub credits_observed: u64,
}

impl StakeData {
    /// Decodes the data of an account of the stake program; `None` if it is of another layout or not
    /// initialised. More data than needed is accepted, as by validators.
    pub fn decode(data: &[u8]) -> Option<Self> {
        Self::read(data).ok()
    }

    fn read(data: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(data);
        let is_delegated = match fields.u32()? {
            1 => false,
            2 => true,
            _ => return Err(Malformed),
        };
        let mut stake = Self {
            rent_exempt_reserve: fields.u64()?,
            staker: fields.key()?,
            withdrawer: fields.key()?,
            lockup_timestamp: fields.i64()?,
            lockup_epoch: fields.u64()?,
            custodian: fields.key()?,
            delegation: None,
        };
        if is_delegated {
            let (voter, lamports) = (fields.key()?, fields.u64()?);
            let (activation_epoch, deactivation) = (fields.u64()?, fields.u64()?);
            fields.bytes(8)?;
            let credits_observed = fields.u64()?;
            // Flags, of which any are valid.
            fields.byte()?;
            stake.delegation = Some(Delegation {
                voter,
                stake: lamports,
                activation_epoch,
                deactivation_epoch: (deactivation != NEVER).then_some(deactivation),
                credits_observed,
            });
        }
        Ok(stake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delegated() -> Vec<u8> {
        let mut data = vec![0; 200];
        data[0] = 2;
        data[4..12].copy_from_slice(&1_u64.to_le_bytes());
        data[12..44].fill(2);
        data[44..76].fill(3);
        data[76..84].copy_from_slice(&(-4_i64).to_le_bytes());
        data[84..92].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        data[92..124].fill(5);
        data[124..156].fill(6);
        data[156..164].copy_from_slice(&7_u64.to_le_bytes());
        data[164..172].copy_from_slice(&u64::MAX.to_le_bytes());
        data[172..180].copy_from_slice(&8_u64.to_le_bytes());
        data[180..188].fill(255);
        data[188..196].copy_from_slice(&9_u64.to_le_bytes());
        data[196] = 255;
        data
    }

    #[test]
    fn every_field_is_read_from_its_place() {
        let delegation = Delegation {
            voter: [6; 32],
            stake: 7,
            activation_epoch: u64::MAX,
            deactivation_epoch: Some(8),
            credits_observed: 9,
        };
        let stake = StakeData {
            rent_exempt_reserve: 1,
            staker: [2; 32],
            withdrawer: [3; 32],
            lockup_timestamp: -4,
            lockup_epoch: u64::MAX - 1,
            custodian: [5; 32],
            delegation: Some(delegation),
        };
        assert_eq!(StakeData::decode(&delegated()), Some(stake));
        let mut data = delegated();
        data[172..180].fill(255);
        let active = Delegation { deactivation_epoch: None, ..delegation };
        let delegation = StakeData::decode(&data).unwrap().delegation;
        assert_eq!(delegation, Some(active));
        data[0] = 1;
        assert_eq!(StakeData::decode(&data), Some(StakeData { delegation: None, ..stake }));
    }

    #[test]
    fn what_is_cut_or_of_another_kind_is_not_decoded() {
        let decodes = |kind: u8, length: usize| {
            let mut data = delegated();
            data.resize(length, 0);
            if let Some(first) = data.first_mut() {
                *first = kind;
            }
            StakeData::decode(&data).is_some()
        };
        for length in 0..210 {
            assert_eq!(decodes(2, length), length >= 197, "{length}");
            assert_eq!(decodes(1, length), length >= 124, "{length}");
            assert!(!decodes(0, length) && !decodes(3, length) && !decodes(4, length));
        }
        assert!(decodes(2, 10 << 20));
        let mut data = delegated();
        data[3] = 1;
        assert_eq!(StakeData::decode(&data), None);
    }
}

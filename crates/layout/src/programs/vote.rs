//! Accounts of the vote program, in bincode.
//!
//! ```text
//! version 4 | node 32 | withdrawer 32
//! | 1, 2: commission in percent 1
//! | 3: collectors 32+32 | commissions in 1/10000 2+2 | pending 8 | BLS key 1+48 if there is one
//! | votes 8, each 12 (1) or 13 (2, 3): latency 1 (2, 3), slot 8, confirmations 4
//! | root slot 1+8 if there is one | authorized voters 8, each epoch 8, key 32
//! | 1, 2: prior voters 32 · 48 + 8 + 1
//! | credits 8, each epoch 8, credits 8, previous credits 8 | last timestamp slot 8, time 8
//! ```
//!
//! Versions 1, 2 and 3 are `V1_14_11`, `V3` and `V4` of the interface. Version 0 is no valid state any
//! more.

use super::fields::{Fields, Malformed};

const PRIOR_VOTERS_BYTES: usize = 32 * 48 + 8 + 1;

/// A vote account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteData {
    /// Number of the layout: 1, 2 or 3.
    pub version: u8,
    /// The validator's identity.
    pub node: [u8; 32],
    /// Who may withdraw.
    pub withdrawer: [u8; 32],
    /// Who may vote from the last epoch on that is listed.
    pub voter: Option<[u8; 32]>,
    /// Commission on inflation rewards in hundredths of a percent.
    pub commission_bps: u16,
    /// Slot of the last vote.
    pub last_vote: Option<u64>,
    /// The last slot that the validator takes for final.
    pub root_slot: Option<u64>,
    /// Last epoch with credits.
    pub epoch: Option<u64>,
    /// Credits at the end of it.
    pub credits: Option<u64>,
    /// Credits at its beginning.
    pub previous_credits: Option<u64>,
    /// Slot of the last timestamp.
    pub timestamp_slot: u64,
    /// The last timestamp, in Unix time.
    pub timestamp: i64,
}

impl VoteData {
    /// Decodes the data of an account of the vote program; `None` if validators would not accept it.
    /// More data than needed is accepted, as by validators.
    pub fn decode(data: &[u8]) -> Option<Self> {
        Self::read(data).ok()
    }

    fn read(data: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(data);
        let version = fields.u32()?;
        let (node, withdrawer) = (fields.key()?, fields.key()?);
        let commission_bps = match version {
            1 | 2 => u16::from(fields.byte()?) * 100,
            3 => {
                fields.bytes(32 + 32)?;
                let commission = fields.u16()?;
                fields.bytes(2 + 8)?;
                fields.option(Fields::array::<48>)?;
                commission
            }
            _ => return Err(Malformed),
        };
        let last_vote = match version {
            1 => fields.items::<12>()?.last().and_then(|vote| number(vote, 0)),
            _ => fields.items::<13>()?.last().and_then(|vote| number(vote, 1)),
        };
        let root_slot = fields.option(Fields::u64)?;
        // The map's order is its epochs', whatever that of the bytes, and the last of equals counts.
        let voters = fields.items::<40>()?;
        let voter = voters.iter().max_by_key(|entry| number(*entry, 0));
        let voter = voter.and_then(|entry| entry.last_chunk()).copied();
        if version < 3 {
            fields.bytes(PRIOR_VOTERS_BYTES)?;
        }
        let credits = fields.items::<24>()?.last();
        let credit = |at| credits.and_then(|entry| number(entry, at));
        Ok(Self {
            version: u8::try_from(version).map_err(|_| Malformed)?,
            node,
            withdrawer,
            voter,
            commission_bps,
            last_vote,
            root_slot,
            epoch: credit(0),
            credits: credit(8),
            previous_credits: credit(16),
            timestamp_slot: fields.u64()?,
            timestamp: fields.i64()?,
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn expected(version: u8) -> VoteData {
        VoteData {
            version,
            node: [1; 32],
            withdrawer: [2; 32],
            voter: Some([4; 32]),
            commission_bps: 700,
            last_vote: Some(11),
            root_slot: Some(9),
            epoch: Some(31),
            credits: Some(u64::MAX),
            previous_credits: Some(33),
            timestamp_slot: 11,
            timestamp: -5,
        }
    }

    /// The account of [`expected`]. Its voters are not in the order of their epochs.
    fn account(version: u8) -> Vec<u8> {
        let mut data = vec![version, 0, 0, 0];
        data.extend([1; 32]);
        data.extend([2; 32]);
        if version == 3 {
            data.extend([9; 64]);
            data.extend(700_u16.to_le_bytes());
            data.extend([8; 10]);
            data.push(1);
            data.extend([7; 48]);
        } else {
            data.push(7);
        }
        data.extend(numbers(&[2]));
        for slot in [10, 11] {
            if version > 1 {
                data.push(3);
            }
            data.extend(numbers(&[slot]));
            data.extend([1, 0, 0, 0]);
        }
        data.push(1);
        data.extend(numbers(&[9]));
        data.extend(numbers(&[3]));
        for (epoch, voter) in [(30, 3), (31, 4), (29, 5)] {
            data.extend(numbers(&[epoch]));
            data.extend([voter; 32]);
        }
        if version < 3 {
            data.extend([0xEE; PRIOR_VOTERS_BYTES]);
        }
        data.extend(numbers(&[2, 30, 1, 0, 31, u64::MAX, 33]));
        data.extend(numbers(&[11]));
        data.extend((-5_i64).to_le_bytes());
        data
    }

    #[test]
    fn every_version_is_decoded() {
        for version in [1, 2, 3] {
            let mut data = account(version);
            assert_eq!(VoteData::decode(&data), Some(expected(version)));
            for length in 0..data.len() {
                assert_eq!(VoteData::decode(&data[..length]), None, "{version}: {length}");
            }
            data.resize(3762, 0);
            assert_eq!(VoteData::decode(&data), Some(expected(version)));
        }
    }

    #[test]
    fn a_new_account_has_neither_votes_nor_credits() {
        let mut data = vec![0; 3731];
        data[0] = 1;
        let found = VoteData::decode(&data).unwrap();
        let found = (found.voter, found.last_vote, found.root_slot, found.epoch, found.credits);
        assert_eq!(found, (None, None, None, None, None));
    }

    #[test]
    fn other_versions_and_impossible_lengths_are_not_decoded() {
        for version in [0, 4, 255] {
            assert_eq!(VoteData::decode(&account(version)), None, "{version}");
            assert_eq!(VoteData::decode(&vec![version; 3762]), None, "{version}");
        }
        // The numbers of votes, of voters and of credits, and the mark of the root slot.
        let (votes, root) = (4 + 64 + 1, 4 + 64 + 1 + 8 + 26);
        let voters = root + 9;
        let credits = voters + 8 + 120 + PRIOR_VOTERS_BYTES;
        for at in [votes, voters, credits] {
            for count in [u64::MAX, u64::MAX / 13, 1 << 40, 1 << 20] {
                let mut data = account(2);
                data[at..at + 8].copy_from_slice(&count.to_le_bytes());
                assert_eq!(VoteData::decode(&data), None, "{count} at {at}");
            }
        }
        let mut data = account(2);
        data[root] = 2;
        assert_eq!(VoteData::decode(&data), None);
    }
}

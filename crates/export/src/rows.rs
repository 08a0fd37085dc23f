//! Rows of what programs keep in their accounts, without the columns that all tables have at the end.

use unsnap_layout::{
    append_vec::RecordHeader,
    programs::{MintData, StakeData, TokenAccountData, VoteData},
};
use unsnap_table::Row;

pub(crate) fn token_account(
    row: &mut Row<'_>,
    header: &RecordHeader,
    account: &TokenAccountData,
    data_len: i32,
) {
    row.key(&header.pubkey);
    row.key(&account.mint);
    row.key(&account.owner);
    row.decimal(account.amount);
    row.text(if account.is_frozen { "frozen" } else { "initialized" });
    row.or_null(account.delegate.as_ref(), Row::key);
    row.decimal(account.delegated_amount);
    row.or_null(account.native_reserve, Row::decimal);
    row.or_null(account.close_authority.as_ref(), Row::key);
    row.key(&header.owner);
    row.int(data_len);
}

pub(crate) fn mint(row: &mut Row<'_>, header: &RecordHeader, mint: &MintData, data_len: i32) {
    row.key(&header.pubkey);
    row.decimal(mint.supply);
    row.int(mint.decimals.into());
    row.or_null(mint.mint_authority.as_ref(), Row::key);
    row.or_null(mint.freeze_authority.as_ref(), Row::key);
    row.key(&header.owner);
    row.int(data_len);
}

pub(crate) fn stake(row: &mut Row<'_>, header: &RecordHeader, stake: &StakeData) {
    let delegation = stake.delegation.as_ref();
    row.key(&header.pubkey);
    row.or_null(delegation.map(|delegation| &delegation.voter), Row::key);
    row.or_null(delegation.map(|delegation| delegation.stake), Row::decimal);
    row.or_null(delegation.map(|delegation| delegation.activation_epoch), Row::decimal);
    row.or_null(delegation.and_then(|delegation| delegation.deactivation_epoch), Row::decimal);
    row.or_null(delegation.map(|delegation| delegation.credits_observed), Row::decimal);
    row.key(&stake.staker);
    row.key(&stake.withdrawer);
    row.key(&stake.custodian);
    row.long(stake.lockup_timestamp);
    row.decimal(stake.lockup_epoch);
    row.decimal(stake.rent_exempt_reserve);
}

pub(crate) fn vote(row: &mut Row<'_>, header: &RecordHeader, vote: &VoteData) {
    row.key(&header.pubkey);
    row.key(&vote.node);
    row.or_null(vote.voter.as_ref(), Row::key);
    row.key(&vote.withdrawer);
    row.int(vote.commission_bps.into());
    row.or_null(vote.last_vote, Row::decimal);
    row.or_null(vote.root_slot, Row::decimal);
    row.or_null(vote.epoch, Row::decimal);
    row.or_null(vote.credits, Row::decimal);
    row.or_null(vote.previous_credits, Row::decimal);
    row.decimal(vote.timestamp_slot);
    row.long(vote.timestamp);
    row.int(vote.version.into());
}

//! Rows of records.

use unsnap_layout::append_vec::RecordHeader;
use unsnap_lookup::{Batch, Storage, Superseded};
use unsnap_table::{Columns, Digest, Schema};

use crate::{ExportError, ExportQuery};

/// `rent_epoch` of an account that is exempt from rent.
const EXEMPT: u64 = u64::MAX;

/// Rows of a batch of records.
pub(crate) struct Gathered {
    /// Number of records in the batch.
    pub records: u64,
    pub rows: Columns,
    pub digest: Digest,
    /// Sum of the rows' lamports.
    pub lamports: u128,
}

/// Makes rows of records.
pub(crate) struct Gather<'a> {
    pub archive: &'a str,
    pub query: &'a ExportQuery,
    pub schema: &'a Schema,
    pub superseded: Option<&'a Superseded>,
}

impl Gather<'_> {
    /// Returns the rows of a batch, in the order of its records.
    pub fn batch(&self, batch: &Batch) -> Result<Gathered, ExportError> {
        let (storage, filter) = (batch.storage, &self.query.filter);
        let in_slot = filter.includes_slot(storage.slot);
        let mut gathered = Gathered {
            records: 0,
            rows: Columns::new(self.schema),
            digest: Digest::default(),
            lamports: 0,
        };
        let mut result = Ok(());
        batch.each(|position, header, data| {
            gathered.records += 1;
            if result.is_ok()
                && in_slot
                && filter.includes(header, data)
                && !self.superseded.is_some_and(|older| older.contains(storage, position))
            {
                gathered.lamports += u128::from(header.lamports);
                result = self.row(&mut gathered.rows, storage, position, header, data);
            }
        });
        result?;
        gathered.digest = gathered.rows.digest();
        Ok(gathered)
    }

    fn row(
        &self,
        rows: &mut Columns,
        storage: Storage,
        position: u64,
        header: &RecordHeader,
        data: &[u8],
    ) -> Result<(), ExportError> {
        let too_large = |column, value| ExportError::TooLarge {
            archive: self.archive.to_owned(),
            pubkey: bs58::encode(header.pubkey).into_string(),
            column,
            value,
        };
        let long = |column, value| i64::try_from(value).map_err(|_| too_large(column, value));
        let RecordHeader { lamports, rent_epoch, data_len, .. } = *header;
        let (lamports, slot) = (long("lamports", lamports)?, long("slot", storage.slot)?);
        let data_len = i32::try_from(data_len).map_err(|_| too_large("data_len", data_len))?;
        let rent_epoch =
            (rent_epoch != EXEMPT).then(|| long("rent_epoch", rent_epoch)).transpose()?;
        let offset = long("offset", position)?;
        let mut row = rows.row();
        row.key(&header.pubkey);
        row.key(&header.owner);
        row.long(lamports);
        row.long(slot);
        row.int(data_len);
        row.boolean(header.executable != 0);
        row.optional_long(rent_epoch);
        if self.query.columns.provenance {
            row.long(storage.id.into());
            row.long(offset);
        }
        if self.query.columns.data {
            let length = self.query.data_prefix.map_or(data.len(), |most| most.min(data.len()));
            row.data(&data[..length]);
        }
        Ok(())
    }
}

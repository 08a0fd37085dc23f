//! Search for rows by their addresses in a file of which only the necessary parts are read.
//!
//! ```text
//! footer, page index ─▶ row groups, pages whose statistics allow a key ─▶ rows ─▶ their pages of all
//!                       other columns
//! ```

use std::{
    collections::BTreeSet,
    ops::{Bound, Range},
    sync::Arc,
};

use bytes::Bytes;
use parquet::{
    DecodeResult,
    column::reader::get_column_reader,
    errors::ParquetError,
    file::{
        metadata::{
            ColumnChunkMask, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder,
            RowGroupMetaData, page_index::RowGroupPageIndex,
        },
        page_index::{column_index::ColumnIndexMetaData, offset_index::PageLocation},
        serialized_reader::SerializedPageReader,
        statistics::Statistics,
    },
};

use crate::{
    Cell, Column, Columns, Kind, Schema, TableError,
    columns::Buffer,
    read::{check_columns, read},
    schema::KEY_BYTES,
    spans::Spans,
};

/// Bytes that are read first, from the end of the file: footers and page indexes of most files.
const TAIL_BYTES: u64 = 256 << 10;

/// Largest footer and page index. That of a file of thousands of row groups is smaller.
const FOOTER_BYTES_MAX: u64 = 256 << 20;

/// Size of the pages that are read together, from which on no further row group is added.
const BATCH_BYTES: u64 = 32 << 20;

/// Most rows of a row group. A guess: thirty times what an export writes.
const ROW_GROUP_ROWS_MAX: u64 = 1 << 24;

/// Most rounds of reading the footer: its length, itself, the page index.
const FOOTER_READS_MAX: usize = 8;

/// A file whose parts can be read.
pub trait Parts {
    /// Errors.
    type Error: From<TableError>;

    /// Returns the size of the file in bytes.
    fn file_bytes(&self) -> u64;

    /// Reads ranges within the file. Returns parts, by their offsets, each of which covers one or more
    /// of the ranges.
    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<(u64, Bytes)>, Self::Error>;
}

/// What a search has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Row groups of the file.
    pub row_groups: u64,
    /// Row groups whose addresses were read.
    pub row_groups_read: u64,
    /// Pages of addresses in these.
    pub pages: u64,
    /// Pages of addresses that were read.
    pub pages_read: u64,
    /// Rows that were found.
    pub rows: u64,
}

/// Shows all rows of a file with these addresses to `see`, with all columns but perhaps that of the data.
///
/// # Errors
///
/// [`TableError::Schema`] if the file has other columns, [`TableError::Parquet`] if it has no page index.
pub fn search<P: Parts>(
    schema: &Schema,
    parts: &mut P,
    keys: &BTreeSet<[u8; KEY_BYTES]>,
    with_data: bool,
    mut see: impl FnMut(&[Cell<'_>]),
) -> Result<Searched, P::Error> {
    let file = metadata(parts)?;
    check_columns(schema, &file)?;
    let rows = |group: &RowGroupMetaData| u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
    if file.row_groups().iter().any(|group| rows(group) > ROW_GROUP_ROWS_MAX) {
        return Err(bad("a row group claims to have millions of rows").into());
    }
    let columns = schema.columns.iter().take_while(|column| with_data || column.kind != Kind::Data);
    let columns: Vec<&Column> = columns.collect();
    let mut searched = Searched { row_groups: file.num_row_groups() as u64, ..Searched::default() };
    let mut index = 0;
    while index < file.num_row_groups() {
        // Addresses of as many row groups at once as fit into memory.
        let (mut batch, mut ranges) = (Vec::new(), Vec::new());
        while index < file.num_row_groups() && length(&ranges) < BATCH_BYTES {
            let group = Group { file: &file, index, pages: file.page_index_for_row_group(index) };
            index += 1;
            let candidates = group.candidates(keys)?;
            let chosen: Vec<usize> =
                (0..candidates.len()).filter(|page| candidates[*page]).collect();
            if chosen.is_empty() {
                continue;
            }
            searched.row_groups_read += 1;
            searched.pages += candidates.len() as u64;
            searched.pages_read += chosen.len() as u64;
            ranges.extend(group.address_pages(&chosen)?);
            batch.push((group, chosen));
        }
        if batch.is_empty() {
            continue;
        }
        let spans = Arc::new(Spans::new(parts.file_bytes(), checked_read(parts, &ranges)?));
        let mut found = Vec::new();
        for (group, chosen) in batch {
            let rows = group.rows(&spans, columns[0], &chosen, keys)?;
            searched.rows += rows.len() as u64;
            found.push((group, rows));
        }
        drop(spans);
        // The other columns of as many of these as fit.
        let mut found = found.into_iter().filter(|(_, rows)| !rows.is_empty()).peekable();
        while found.peek().is_some() {
            let (mut batch, mut ranges) = (Vec::new(), Vec::new());
            while length(&ranges) < BATCH_BYTES
                && let Some((group, rows)) = found.next()
            {
                ranges.extend(group.pages_of(columns.len(), &rows)?);
                batch.push((group, rows));
            }
            let spans = Arc::new(Spans::new(parts.file_bytes(), checked_read(parts, &ranges)?));
            for (group, rows) in batch {
                let buffers = group.columns(&spans, &columns, &rows)?;
                Columns::from_buffers(rows.len(), buffers).each_row(&mut see);
            }
        }
    }
    Ok(searched)
}

/// Reads the footer, the page index, and statistics of the pages of addresses.
fn metadata<P: Parts>(parts: &mut P) -> Result<ParquetMetaData, P::Error> {
    let end = parts.file_bytes();
    let decoder = ParquetMetaDataPushDecoder::try_new(end).map_err(TableError::from)?;
    let mut decoder = decoder
        .with_page_index_policy(PageIndexPolicy::Optional)
        .with_column_index_mask(ColumnChunkMask::columns([0]));
    let tail = end.saturating_sub(TAIL_BYTES)..end;
    let mut wanted = Vec::from_iter([tail]);
    for _ in 0..FOOTER_READS_MAX {
        if length(&wanted) > FOOTER_BYTES_MAX {
            return Err(bad("its footer or page index is too large").into());
        }
        for (offset, bytes) in checked_read(parts, &wanted)? {
            let range = offset..offset + bytes.len() as u64;
            decoder.push_range(range, bytes).map_err(TableError::from)?;
        }
        match decoder.try_decode().map_err(TableError::from)? {
            DecodeResult::Data(metadata) => return Ok(metadata),
            DecodeResult::NeedsData(ranges) => wanted = ranges,
            DecodeResult::Finished => break,
        }
    }
    Err(bad("its footer cannot be read").into())
}

/// Reads ranges, which a hostile file may have chosen.
fn checked_read<P: Parts>(
    parts: &mut P,
    ranges: &[Range<u64>],
) -> Result<Vec<(u64, Bytes)>, P::Error> {
    let end = parts.file_bytes();
    if ranges.iter().any(|range| range.start > range.end || range.end > end) {
        return Err(bad("a part of it would be behind its end").into());
    }
    parts.read(ranges)
}

fn length(ranges: &[Range<u64>]) -> u64 {
    let lengths = ranges.iter().map(|range| range.end.saturating_sub(range.start));
    lengths.fold(0, u64::saturating_add)
}

fn bad(reason: &str) -> TableError {
    TableError::Parquet(ParquetError::General(reason.to_owned()))
}

/// A row group.
struct Group<'a> {
    file: &'a ParquetMetaData,
    index: usize,
    pages: RowGroupPageIndex,
}

impl Group<'_> {
    /// Returns for each page of addresses whether one of the keys may be there.
    fn candidates(&self, keys: &BTreeSet<[u8; KEY_BYTES]>) -> Result<Vec<bool>, TableError> {
        let pages = self.locations(0)?.len();
        let chunk = self.file.row_group(self.index).column(0);
        if let Some(Statistics::FixedLenByteArray(statistics)) = chunk.statistics()
            && let (Some(least), Some(most)) = (statistics.min_opt(), statistics.max_opt())
            && !any_within(keys, least.data(), most.data())
        {
            return Ok(vec![false; pages]);
        }
        let Some(ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index)) = self.pages.column_index(0)
        else {
            return Ok(vec![true; pages]);
        };
        if index.num_pages() != pages as u64 {
            return Err(bad("its page indexes do not match"));
        }
        let may_hold = |page| match (index.min_value(page), index.max_value(page)) {
            (Some(least), Some(most)) => any_within(keys, least, most),
            _ => true,
        };
        Ok((0..pages).map(may_hold).collect())
    }

    /// Returns the places of pages of addresses.
    fn address_pages(&self, chosen: &[usize]) -> Result<Vec<Range<u64>>, TableError> {
        let mut ranges = self.front(0)?;
        for page in chosen {
            ranges.push(self.page(0, *page)?);
        }
        Ok(ranges)
    }

    /// Decodes pages of addresses. Returns the rows of the keys, in order.
    fn rows(
        &self,
        spans: &Arc<Spans>,
        column: &Column,
        chosen: &[usize],
        keys: &BTreeSet<[u8; KEY_BYTES]>,
    ) -> Result<Vec<usize>, TableError> {
        let rows = chosen.iter().map(|page| self.rows_of(0, *page));
        let rows: Vec<Range<usize>> = rows.collect::<Result<_, _>>()?;
        let read = self.read(spans, 0, column, &rows)?;
        let numbers: Vec<usize> = rows.into_iter().flatten().collect();
        let addresses = Columns::from_buffers(numbers.len(), vec![read]);
        let (mut found, mut at) = (Vec::new(), 0);
        addresses.each_row(|cells| {
            if cells[0].to_key().is_some_and(|key| keys.contains(&key)) {
                found.push(numbers[at]);
            }
            at += 1;
        });
        Ok(found)
    }

    /// Returns the places of the pages of all columns that hold these rows.
    fn pages_of(&self, columns: usize, rows: &[usize]) -> Result<Vec<Range<u64>>, TableError> {
        let mut ranges = Vec::new();
        for column in 0..columns {
            ranges.extend(self.front(column)?);
            let pages = rows.iter().map(|row| self.page_of(column, *row));
            for page in pages.collect::<Result<BTreeSet<usize>, _>>()? {
                ranges.push(self.page(column, page)?);
            }
        }
        Ok(ranges)
    }

    /// Decodes rows of several columns.
    fn columns(
        &self,
        spans: &Arc<Spans>,
        columns: &[&Column],
        rows: &[usize],
    ) -> Result<Vec<Buffer>, TableError> {
        let rows: Vec<Range<usize>> = rows.iter().map(|row| *row..row + 1).collect();
        let read = columns.iter().enumerate();
        read.map(|(index, column)| self.read(spans, index, column, &rows)).collect()
    }

    /// Decodes rows of a column whose pages are in memory.
    fn read(
        &self,
        spans: &Arc<Spans>,
        index: usize,
        column: &Column,
        rows: &[Range<usize>],
    ) -> Result<Buffer, TableError> {
        let group = self.file.row_group(self.index);
        let chunk = group.column(index);
        let locations = Some(self.locations(index)?.to_vec());
        let pages =
            SerializedPageReader::new(Arc::clone(spans), chunk, self.row_count(), locations)?;
        let reader = get_column_reader(chunk.column_descr_ptr(), Box::new(pages));
        read(reader, column, rows)
    }

    fn row_count(&self) -> usize {
        usize::try_from(self.file.row_group(self.index).num_rows()).unwrap_or(0)
    }

    fn locations(&self, column: usize) -> Result<&[PageLocation], TableError> {
        let index = self.pages.offset_index(column);
        index
            .map(|index| index.page_locations().as_slice())
            .ok_or_else(|| bad("it has no page index"))
    }

    /// Returns the place of a column's dictionary, in front of its first page, if there is one.
    fn front(&self, column: usize) -> Result<Vec<Range<u64>>, TableError> {
        let (begin, _) = self.file.row_group(self.index).column(column).byte_range();
        let first = self.locations(column)?.first();
        let first = first.and_then(|page| u64::try_from(page.offset).ok());
        Ok(first.filter(|first| *first != begin).map(|first| begin..first).into_iter().collect())
    }

    /// Returns the place of a page.
    fn page(&self, column: usize, page: usize) -> Result<Range<u64>, TableError> {
        let location = self.locations(column)?.get(page);
        let range = location.and_then(|page| {
            let begin = u64::try_from(page.offset).ok()?;
            let bytes = u64::try_from(page.compressed_page_size).ok()?;
            Some(begin..begin.checked_add(bytes)?)
        });
        range.ok_or_else(|| bad("a page of it is nowhere"))
    }

    /// Returns the rows of a page.
    fn rows_of(&self, column: usize, page: usize) -> Result<Range<usize>, TableError> {
        let locations = self.locations(column)?;
        let first = |page: &PageLocation| usize::try_from(page.first_row_index).ok();
        let begin = locations.get(page).and_then(first);
        let end = locations.get(page + 1).map_or(Some(self.row_count()), first);
        match (begin, end) {
            (Some(begin), Some(end)) if begin <= end && end <= self.row_count() => Ok(begin..end),
            _ => Err(bad("the pages of it are in disorder")),
        }
    }

    /// Returns the page that holds a row.
    fn page_of(&self, column: usize, row: usize) -> Result<usize, TableError> {
        let row = i64::try_from(row).unwrap_or(i64::MAX);
        let behind = self.locations(column)?.partition_point(|page| page.first_row_index <= row);
        behind.checked_sub(1).ok_or_else(|| bad("the pages of it do not begin with the first row"))
    }
}

/// Whether there is a key from `least` to `most`, by the order of bytes.
fn any_within(keys: &BTreeSet<[u8; KEY_BYTES]>, least: &[u8], most: &[u8]) -> bool {
    let first = keys.range::<[u8], _>((Bound::Included(least), Bound::Unbounded)).next();
    first.is_some_and(|key| key.as_slice() <= most)
}

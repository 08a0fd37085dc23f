//! Opening of archives and their indexes, before the process is confined.
//!
//! A run looks up every path here, apart from those of files that it creates. All later stages use
//! descriptors, so the process can be confined to them.

use std::{io, os::fd::BorrowedFd};

use unsnap_index::Index;

use crate::{
    Archive, Handles, OpenArchive, Options, PassError,
    indexes::{self, SideCarFile},
    sandbox::{self, Need, SandboxReport},
};

/// Open archives and their indexes.
pub struct Opened {
    /// The archives as the caller named them: a full archive, then its incremental one.
    pub named: Vec<Archive>,
    /// The open archives, in the same order.
    pub archives: Vec<OpenArchive>,
    /// The side-car of each archive, if it has one and the options allow its use.
    side_cars: Vec<Option<SideCarFile>>,
    /// Number of decoding threads. Determined here, since that reads files of control groups.
    pub threads: usize,
}

impl Opened {
    /// Opens archives and their side-cars without reading them.
    pub fn open(archives: &[Archive], options: &Options) -> Result<Self, PassError> {
        let calls = options.io.engine.syscalls();
        let open = |archive: &Archive| OpenArchive::open(&calls, archive, options.io.direct);
        Ok(Self {
            named: archives.to_vec(),
            archives: archives.iter().map(open).collect::<Result<_, _>>()?,
            side_cars: archives
                .iter()
                .map(|archive| SideCarFile::open(archive, options.io.index))
                .collect(),
            threads: options.resources.threads(),
        })
    }

    /// Opens archives for an operation that only reads them, and confines the calling thread for
    /// good. Then calls `confined`, which can start threads that must be confined as well.
    pub fn to_read(
        archives: &[Archive],
        options: &Options,
        handles: &Handles,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, PassError> {
        handles.progress.reset(options.neighbour.pace.as_ref());
        options.neighbour.settle()?;
        let opened = Self::open(archives, options)?;
        opened.confine(options, &[]);
        confined().map_err(PassError::thread)?;
        Ok(opened)
    }

    /// Confines the calling thread, and all threads that it will start, to the open descriptors and
    /// to these directories.
    pub fn confine(&self, options: &Options, needs: &[(BorrowedFd<'_>, Need)]) -> SandboxReport {
        sandbox::confine(options.sandbox, needs)
    }

    /// Reads the index of each archive; `None` for an archive without a trustworthy index. Leaves
    /// no side-cars for a second call.
    ///
    /// # Errors
    ///
    /// With [`IndexUse::Proven`](crate::IndexUse::Proven), [`PassError::Index`] for an archive
    /// without a trustworthy index.
    pub fn load_indexes(
        &mut self,
        options: &Options,
        handles: &Handles,
    ) -> Result<Vec<Option<Index>>, PassError> {
        let side_cars = std::mem::take(&mut self.side_cars);
        let archives = self.named.iter().zip(&self.archives);
        let wanted = options.io.index;
        side_cars
            .into_iter()
            .zip(archives)
            .map(|(side_car, (named, archive))| {
                indexes::load(side_car, named, archive, wanted, handles)
            })
            .collect()
    }
}

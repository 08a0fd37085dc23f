//! Names of what a run has begun and neither finished nor removed.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What would be left behind if the process ended now: staging directories and files under
/// construction. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Unfinished {
    paths: Arc<Mutex<Vec<PathBuf>>>,
}

impl Unfinished {
    /// Notes a path until the returned value is dropped. Call this before anything is made there.
    pub fn begin(&self, path: PathBuf) -> UnfinishedPath {
        self.lock().push(path.clone());
        UnfinishedPath { all: self.clone(), path: Some(path) }
    }

    /// Returns the paths, in order, without those inside others. Makes no system call on them, so it
    /// also answers while a file system does not.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths = self.lock().clone();
        paths.sort();
        // A directory comes before everything in it.
        let mut outermost: Vec<PathBuf> = Vec::new();
        for path in paths {
            if !outermost.iter().any(|outer| path.starts_with(outer)) {
                outermost.push(path);
            }
        }
        outermost
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A path that is unfinished until this is dropped.
#[derive(Debug)]
pub struct UnfinishedPath {
    all: Unfinished,
    /// `None` when it is finished.
    path: Option<PathBuf>,
}

impl UnfinishedPath {
    /// Forgets the path: it has its final name, or is gone.
    pub fn finish(&mut self) {
        let Some(path) = self.path.take() else { return };
        let mut paths = self.all.lock();
        if let Some(index) = paths.iter().position(|noted| *noted == path) {
            paths.swap_remove(index);
        }
    }
}

impl Drop for UnfinishedPath {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_path_is_unfinished_until_it_is_finished_or_dropped() {
        let all = Unfinished::default();
        let [mut one, two, inside, twice] =
            ["/x/one", "/x", "/x/one/y", "/x"].map(|path| all.begin(path.into()));
        assert_eq!(all.paths(), [Path::new("/x")]);
        drop(two);
        assert_eq!(all.paths(), [Path::new("/x")], "it was begun twice");
        drop(twice);
        assert_eq!(all.paths(), [Path::new("/x/one")]);
        one.finish();
        assert_eq!(all.paths(), [Path::new("/x/one/y")]);
        drop((one, inside));
        assert!(all.paths().is_empty());
    }
}

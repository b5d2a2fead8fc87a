//! A model of a local disk: what a crash may leave of its changes.
//!
//! | state | keeps |
//! |---|---|
//! | killed | everything: only the process died |
//! | lost | names and contents that were synced |
//! | hollow | all names, contents that were synced: other files are as they were before, or empty |
//! | without one | everything but one change of a name |
//! | with one | of the changes of names that were not synced only one |
//! | torn | everything, but of one file that was not synced only half, zeros, or the new half and the old one |
//! | shuffled | any of the changes of names, and of each file the old content, the new one, or one that is torn |
//!
//! These are some of the states that POSIX allows: a name is safe when its directory was synced, a content when its
//! file was, in whichever order they were made. Single changes are left out for the last [`BY_THEMSELVES`], shuffled
//! states are [`SHUFFLED`] of each moment. A journal of the file system allows less.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pennon_table::store::DiskChange;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Shuffled states of each moment.
const SHUFFLED: u64 = 3;
/// Changes that are lost or kept by themselves, of each moment: the last ones.
const BY_THEMSELVES: usize = 8;

/// Files and directories that a crash has left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Remains {
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(super) directories: BTreeSet<PathBuf>,
}

/// The content of a file, and what of it survives.
#[derive(Debug, Default)]
struct File {
    content: Vec<u8>,
    safe: Vec<u8>,
}

/// A change of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NameChange {
    Make(PathBuf),
    Unmake(PathBuf),
    Name(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl NameChange {
    fn is_in(&self, directory: &Path) -> bool {
        let (Self::Make(path)
        | Self::Unmake(path)
        | Self::Name(path, _)
        | Self::Rename(_, path, _)
        | Self::Remove(path)) = self;
        path.parent() == Some(directory)
    }
}

/// Names of files and directories.
#[derive(Debug, Clone, Default)]
struct Names {
    files: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
}

impl Names {
    fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Make(path) => drop(self.directories.insert(path.clone())),
            NameChange::Unmake(path) => drop(self.directories.remove(path)),
            NameChange::Name(path, file) => drop(self.files.insert(path.clone(), *file)),
            NameChange::Rename(from, to, file) => {
                self.files.remove(from);
                self.files.insert(to.clone(), *file);
            }
            NameChange::Remove(path) => drop(self.files.remove(path)),
        }
    }
}

/// What of a file survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// What was synced.
    Safe,
    /// The first half of what was written.
    Half,
    /// Its length.
    Zeros,
    /// The first half of what was written, then what was synced, then zeros.
    Mixed,
    /// All that was written.
    All,
}

impl Kept {
    const TORN: [Self; 3] = [Self::Half, Self::Zeros, Self::Mixed];

    fn of(self, file: &File) -> Vec<u8> {
        let File { content, safe } = file;
        let half = content.len() / 2;
        let first = content.iter().take(half).copied();
        match self {
            _ if content == safe => content.clone(),
            Self::Safe => safe.clone(),
            Self::Half => first.collect(),
            Self::Zeros => vec![0; content.len()],
            Self::Mixed => {
                let old = safe.iter().skip(half).copied().chain(std::iter::repeat(0));
                first.chain(old).take(content.len()).collect()
            }
            Self::All => content.clone(),
        }
    }
}

/// The disk after some changes.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: Vec<File>,
    now: Names,
    safe: Names,
    /// Changes of directories that were not synced since, in their order.
    pending: Vec<NameChange>,
}

impl Disk {
    /// Takes in the next change.
    pub(super) fn change(&mut self, change: &DiskChange) {
        match change {
            DiskChange::CreateDirectory(path) => self.pend(NameChange::Make(path.clone())),
            DiskChange::RemoveDirectory(path) => self.pend(NameChange::Unmake(path.clone())),
            DiskChange::Write(path, content) => match self.file(path) {
                Some(file) => file.content.clone_from(content),
                None => {
                    let at = self.files.len();
                    self.files.push(File { content: content.clone(), safe: Vec::new() });
                    self.pend(NameChange::Name(path.clone(), at));
                }
            },
            DiskChange::Link(from, to) => {
                if let Some(&file) = self.now.files.get(from) {
                    self.pend(NameChange::Name(to.clone(), file));
                }
            }
            DiskChange::Rename(from, to) => {
                if let Some(&file) = self.now.files.get(from) {
                    self.pend(NameChange::Rename(from.clone(), to.clone(), file));
                }
            }
            DiskChange::Remove(path) => self.pend(NameChange::Remove(path.clone())),
            DiskChange::Sync(path) => match self.file(path) {
                Some(file) => file.safe.clone_from(&file.content),
                None => {
                    let safe = &mut self.safe;
                    self.pending.retain(|change| {
                        let is_safe = change.is_in(path);
                        if is_safe {
                            safe.apply(change);
                        }
                        !is_safe
                    });
                }
            },
        }
    }

    fn pend(&mut self, change: NameChange) {
        self.now.apply(&change);
        self.pending.push(change);
    }

    fn file(&mut self, path: &Path) -> Option<&mut File> {
        let at = *self.now.files.get(path)?;
        self.files.get_mut(at)
    }

    /// What a kill of the process leaves.
    pub(super) fn killed(&self) -> Remains {
        self.remains(|_| true, |_| Kept::All)
    }

    /// What kills of the process leave that is about to make a change: of a file that is written, nothing or half.
    pub(super) fn killed_during(&self, change: &DiskChange) -> Vec<Remains> {
        let DiskChange::Write(path, content) = change else { return Vec::new() };
        let with = |length: usize| {
            let mut remains = self.killed();
            remains.files.insert(path.clone(), content.iter().take(length).copied().collect());
            remains
        };
        vec![with(0), with(content.len() / 2)]
    }

    /// What a power cut may leave, named.
    pub(super) fn after_power_cut(&self, seed: u64) -> Vec<(String, Remains)> {
        let unsynced: Vec<usize> = (0..self.files.len()).filter(|&at| self.is_unsynced(at)).collect();
        let mut states = vec![
            ("lost".to_owned(), self.remains(|_| false, |_| Kept::Safe)),
            ("hollow".to_owned(), self.remains(|_| true, |_| Kept::Safe)),
        ];
        for (at, change) in self.pending.iter().enumerate().rev().take(BY_THEMSELVES) {
            states.push((format!("without {change:?}"), self.remains(|other| other != at, |_| Kept::All)));
            states.push((format!("with only {change:?}"), self.remains(|other| other == at, |_| Kept::Safe)));
        }
        for &at in unsynced.iter().rev().take(BY_THEMSELVES) {
            for torn in Kept::TORN {
                let kept = |other| if other == at { torn } else { Kept::All };
                states.push((format!("file {at} is torn: {torn:?}"), self.remains(|_| true, kept)));
            }
        }
        if self.pending.len() + unsynced.len() > 1 {
            for number in 0..SHUFFLED {
                let mut random = StdRng::seed_from_u64(seed.wrapping_mul(SHUFFLED).wrapping_add(number));
                let changes: Vec<bool> = self.pending.iter().map(|_| random.random()).collect();
                let kept: Vec<Kept> = (0..self.files.len())
                    .map(|_| match random.random_range(0..6) {
                        0 | 1 => Kept::Safe,
                        2 => Kept::Half,
                        3 => Kept::Zeros,
                        4 => Kept::Mixed,
                        _ => Kept::All,
                    })
                    .collect();
                let remains = self.remains(
                    |at| changes.get(at) == Some(&true),
                    |at| kept.get(at).copied().unwrap_or(Kept::All),
                );
                states.push((format!("shuffled {number}"), remains));
            }
        }
        states
    }

    fn is_unsynced(&self, at: usize) -> bool {
        self.files.get(at).is_some_and(|file| file.content != file.safe)
    }

    /// The names that were synced with some of the other changes, and of each file what is kept of it.
    fn remains(&self, is_done: impl Fn(usize) -> bool, kept: impl Fn(usize) -> Kept) -> Remains {
        let mut names = self.safe.clone();
        self.pending
            .iter()
            .enumerate()
            .filter(|(at, _)| is_done(*at))
            .for_each(|(_, change)| names.apply(change));
        let known: BTreeSet<&PathBuf> = self.now.directories.iter().chain(&self.safe.directories).collect();
        // Nothing is found below a directory whose own name is lost.
        let is_reachable = |path: &Path| {
            path.ancestors()
                .skip(1)
                .all(|above| !known.contains(&above.to_path_buf()) || names.directories.contains(above))
        };
        let files = names.files.iter().filter(|(path, _)| is_reachable(path)).filter_map(|(path, &at)| {
            let file = self.files.get(at)?;
            let content = kept(at).of(file);
            Some((path.clone(), content))
        });
        let directories = names.directories.iter().filter(|path| is_reachable(path)).cloned().collect();
        Remains { files: files.collect(), directories }
    }
}

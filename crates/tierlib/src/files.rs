//! The data files that this process has opened, by identity.

use std::collections::HashMap;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tiercache::{FileId, Identity, Reason, Tier};

use crate::process::{self, Side};

/// A data file. Lives as long as the process: a thread may still hold it after the last close.
pub struct File {
    /// Where it is in `KNOWN`.
    key: Key,
    /// Its id in the tier; None when it is never cached.
    id: Option<FileId>,
    /// Open descriptors.
    opens: AtomicU32,
    /// Asynchronous writes whose end was not seen. One that ends unseen is never taken off.
    flights: AtomicU32,
    /// Its name is gone: its pages go with the last descriptor.
    unlinked: AtomicBool,
    /// Changes of it can no longer be seen.
    bypassed: AtomicBool,
    /// Some descriptor of it appends.
    pub appends: AtomicBool,
}

type Key = (u64, u64, u64);
static KNOWN: LazyLock<Mutex<HashMap<Key, &'static File>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(identity: &Identity) -> Key {
    (identity.device, identity.inode, identity.birth_ns)
}

impl File {
    fn new(key: Key, id: Option<FileId>) -> &'static Self {
        Box::leak(Box::new(Self {
            key,
            id,
            opens: AtomicU32::new(0),
            flights: AtomicU32::new(0),
            unlinked: AtomicBool::new(false),
            bypassed: AtomicBool::new(id.is_none()),
            appends: AtomicBool::new(false),
        }))
    }

    /// The id to use the tier with; None when the file is not cached.
    #[inline]
    pub fn id(&self) -> Option<FileId> {
        if self.bypassed.load(Ordering::Acquire) {
            None
        } else {
            self.id
        }
    }

    /// One more descriptor.
    pub fn hold(&self) {
        self.opens.fetch_add(1, Ordering::Relaxed);
    }

    /// One more write in flight.
    pub fn take_off(&self) {
        self.flights.fetch_add(1, Ordering::Relaxed);
    }

    /// A write in flight ended.
    pub fn land(&self, tier: &Tier) {
        let mut known = lock(&KNOWN);
        self.flights.fetch_sub(1, Ordering::AcqRel);
        self.forget_if_unused(tier, &mut known);
    }

    /// From here on it is not cached, in this process, for good: it may change unseen.
    pub fn bypass(&self, tier: &Tier) {
        if !self.bypassed.swap(true, Ordering::AcqRel) {
            tier.bypass(Reason::Unsupported);
            if let Some(id) = self.id {
                tier.forget(id);
            }
        }
    }

    fn forget_if_unused(&self, tier: &Tier, known: &mut HashMap<Key, &'static File>) {
        let in_use = self.opens.load(Ordering::Acquire) + self.flights.load(Ordering::Acquire);
        if in_use == 0 && self.unlinked.load(Ordering::Relaxed) {
            if let Some(id) = self.id {
                tier.forget(id);
            }
            if known
                .get(&self.key)
                .is_some_and(|file| ptr::eq(*file, self))
            {
                known.remove(&self.key);
            }
        }
    }

    /// One descriptor less. `last` is how the file was just before.
    pub fn release(&self, tier: &Tier, last: Option<Identity>) {
        let mut known = lock(&KNOWN);
        if self.opens.fetch_sub(1, Ordering::AcqRel) == 1 {
            // A write in flight changes the file after its last close.
            let still = self.flights.load(Ordering::Acquire) == 0;
            if let Some(id) = self.id {
                tier.closed(id, last.filter(|_| still));
            }
            self.forget_if_unused(tier, &mut known);
        }
    }
}

/// The file of a descriptor that was just opened, held once. None when a rule leaves it alone.
pub fn open(tier: &Tier, identity: Identity, path: &CStr) -> &'static File {
    let (mut known, key) = (lock(&KNOWN), key(&identity));
    let Some(file) = known.get(&key).copied() else {
        let file = File::new(key, tier.file(path.to_bytes(), identity));
        file.hold();
        known.insert(key, file);
        return file;
    };
    if file.opens.fetch_add(1, Ordering::AcqRel) == 0
        && let Some(id) = file.id()
    {
        tier.reopened(id, identity);
    }
    file
}

/// The file of this identity, if this process ever opened it.
pub fn find(identity: &Identity) -> Option<&'static File> {
    lock(&KNOWN).get(&key(identity)).copied()
}

/// A name of the file is gone.
pub fn unlinked(tier: &Tier, identity: &Identity) {
    let mut known = lock(&KNOWN);
    if let Some(file) = known.get(&key(identity)).copied() {
        file.unlinked.store(true, Ordering::Relaxed);
        file.forget_if_unused(tier, &mut known);
    }
}

/// The file has another name; `identity` is how it was before.
pub fn renamed(tier: &Tier, identity: &Identity, path: &CStr) {
    if let Some(id) = find(identity).and_then(File::id) {
        tier.renamed(id, path.to_bytes());
        // A server may close a file before it renames it.
        if let Ok(now) = Identity::of_path(path) {
            tier.restamped(id, identity, now);
        }
    }
}

/// The file may be written to by descriptors that are not watched: from here on it is not cached, in this process, for good.
/// Also before the tier opens.
pub fn never_cache(identity: &Identity) {
    let (mut known, key) = (lock(&KNOWN), key(identity));
    let file = known.entry(key).or_insert_with(|| File::new(key, None));
    // One that is there has an id only if the tier is open.
    if let Side::Owner(tier) = process::side() {
        file.bypass(tier);
    }
}

/// Before a clean stop: what has no name cannot come back.
pub fn forget_unlinked(tier: &Tier) {
    for file in lock(&KNOWN).values() {
        if let (true, Some(id)) = (file.unlinked.load(Ordering::Relaxed), file.id) {
            tier.forget(id);
        }
    }
}

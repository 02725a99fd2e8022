//! What is counted, by name.

macro_rules! named {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them, in the order of the page.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in JSON and in Prometheus text.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

named! {
    /// A counter of the page; each only grows.
    Counter {
        /// Reads served.
        Hits = "hits",
        /// Bytes of reads served.
        HitBytes = "hit_bytes",
        /// Reads that went to the file and may be filled.
        Misses = "misses",
        /// Bytes of those.
        MissBytes = "miss_bytes",
        /// Pages inserted.
        Fills = "fills",
        /// Bytes of those.
        FillBytes = "fill_bytes",
        /// Fills that a write, a truncation or a mode switch made worthless.
        FillsStale = "fills_stale",
        /// Fills that promotion kept out.
        FillsNotPromoted = "fills_not_promoted",
        /// Fills that found no room (every candidate pinned or busy, or the medium full).
        FillsNoRoom = "fills_no_room",
        /// Pages taken out to make room for others.
        Evictions = "evictions",
        /// Pages that a write, truncation or removal took out.
        Invalidations = "invalidations",
        /// Writes seen.
        Writes = "writes",
        /// Bytes of writes whose size was known before they were made: not of appends and truncations.
        WriteBytes = "write_bytes",
        /// Copies that a writer overtook and that were not returned.
        TornReads = "torn_reads",
        /// Pages taken back from before a restart.
        WarmPages = "warm_pages",
        /// Of those, pages found good at their first read.
        WarmVerified = "warm_verified",
        /// Of those, pages dropped: checksum or identity did not fit.
        WarmRejected = "warm_rejected",
        /// Reads of the medium that failed.
        MediumReadErrors = "medium_read_errors",
        /// Writes of the medium that failed.
        MediumWriteErrors = "medium_write_errors",
        /// Reads of the medium that gave another page than was written.
        MediumMismatches = "medium_mismatches",
        /// Accesses of a file or device that took longer than they may.
        MediumSlow = "medium_slow",
        /// Hits that were compared with the file.
        Audits = "audits",
        /// Of those, hits that were not what the file has.
        AuditDifferences = "audit_differences",
    }
}

named! {
    /// Why a request went past the tier.
    Reason {
        /// The mode is pass-through.
        PassThrough = "pass_through",
        /// A rule leaves the file alone.
        Rule = "rule",
        /// Part of a long sequential run.
        Sequential = "sequential",
        /// Asynchronous read-ahead.
        ReadAhead = "read_ahead",
        /// A write to the same pages is in flight.
        WriteInFlight = "write_in_flight",
        /// Smaller than what the tier can keep, or across the end of the file.
        Unaligned = "unaligned",
        /// Larger than the tier handles at once.
        TooLarge = "too_large",
        /// The file was forgotten (removed or replaced).
        Forgotten = "forgotten",
        /// More files than the table holds.
        TooManyFiles = "too_many_files",
        /// The medium failed too often, and the tier turned itself off.
        MediumError = "medium_error",
        /// A call that the tier does not serve (sendfile, mmap, splice).
        Unsupported = "unsupported",
        /// In the child of a fork.
        Forked = "forked",
        /// The tier was stopped.
        Stopped = "stopped",
        /// A hit was not what its file has, and the tier turned itself off.
        Audit = "audit",
    }
}

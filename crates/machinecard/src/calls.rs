//! Cost of fetching code that the processor could not foresee: calls in random order, to functions that lie close together or
//! a page apart.

use std::io;
use std::time::Duration;

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::Serialize;

use crate::chase::LINE_BYTES;
use crate::region::{Code, Pages, Region};
use crate::stopwatch::cpu_ns_each;

/// Functions that are called, a line of code each: as many pages when they lie a page apart.
pub const FUNCTIONS: [u32; 2] = [512, 4096];
const PAGE_BYTES: usize = 4096;
const LINES_A_PAGE: usize = PAGE_BYTES / LINE_BYTES;
/// x86-64's `ret`: all that a function does.
const RET: u8 = 0xc3;
/// Calls before the order begins again: too many to be learnt by a branch predictor.
const ORDER: usize = 1 << 15;

/// How the functions lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// One beside the other.
    Packed,
    /// One in each page of 4 KiB.
    Spread,
}

/// What a call costs to functions that lie in one way. It holds a branch that was predicted wrongly, the same for every layout;
/// what differs is the fetch.
#[derive(Debug, Serialize)]
pub struct Calls {
    /// Functions that are called, a line of code each.
    pub functions: u32,
    /// How they lie.
    pub layout: Layout,
    /// The pages that were asked for.
    pub pages: Pages,
    /// How much of the memory the kernel put into huge pages.
    pub huge_bytes: usize,
    /// CPU time of a call, each repetition.
    pub call_ns: Vec<f64>,
}

/// Functions in memory, and the order in which they are called.
pub struct Functions {
    code: Code,
    order: Vec<u32>,
    count: u32,
    layout: Layout,
    pages: Pages,
}

impl Functions {
    /// Functions that return at once.
    ///
    /// # Errors
    /// Unsupported on another processor than x86-64; what the kernel refuses.
    pub fn new(count: u32, layout: Layout, pages: Pages) -> io::Result<Self> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        Self::in_order(count, layout, pages, |offsets| {
            let any = |_| offsets[random.random_range(0..offsets.len())];
            (0..ORDER).map(any).collect()
        })
    }

    /// The same, called in an order that has each once.
    ///
    /// # Errors
    /// As `new`.
    pub fn each_once(count: u32, layout: Layout, pages: Pages) -> io::Result<Self> {
        Self::in_order(count, layout, pages, |offsets| {
            let mut order = offsets.to_vec();
            order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(1));
            order
        })
    }

    fn in_order(
        count: u32,
        layout: Layout,
        pages: Pages,
        order: impl FnOnce(&[u32]) -> Vec<u32>,
    ) -> io::Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let offsets = offsets(count, layout);
        let end = offsets.last().map_or(0, |&last| last as usize + 1);
        let mut region = Region::new(end, pages)?;
        let memory = region.as_mut_slice();
        for &offset in &offsets {
            memory[offset as usize] = RET;
        }
        Ok(Self {
            order: order(&offsets),
            code: region.into_code()?,
            count,
            layout,
            pages,
        })
    }

    /// Call them in their order.
    pub fn run(&self) {
        let start = self.code.start().as_ptr();
        for &offset in &self.order {
            let function = start.wrapping_add(offset as usize);
            // SAFETY: at each offset of the order, `in_order` has written a function without arguments or result that returns at
            // once; it is mapped and executable while `self` lives.
            let function = unsafe { std::mem::transmute::<*mut u8, extern "C" fn()>(function) };
            function();
        }
    }

    /// CPU time of a call in nanoseconds.
    pub fn call_ns(&self, length: Duration) -> f64 {
        cpu_ns_each(length, || {
            self.run();
            self.order.len() as u64
        })
    }

    /// The result, with these repetitions.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn found(&self, call_ns: Vec<f64>) -> io::Result<Calls> {
        Ok(Calls {
            functions: self.count,
            layout: self.layout,
            pages: self.pages,
            huge_bytes: self.code.huge_bytes()?,
            call_ns,
        })
    }
}

/// Where each function lies. A page apart, they lie at random within their pages: any rule would crowd them into few sets of the
/// caches.
fn offsets(count: u32, layout: Layout) -> Vec<u32> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut offset = |function: usize| match layout {
        Layout::Packed => function * LINE_BYTES,
        Layout::Spread => function * PAGE_BYTES + random.random_range(0..LINES_A_PAGE) * LINE_BYTES,
    };
    (0..count as usize)
        .map(|function| offset(function) as u32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_functions_lie_a_page_each_and_packed_ones_beside_each_other() {
        let spread = offsets(200, Layout::Spread);
        let pages: Vec<u32> = spread.iter().map(|offset| offset / 4096).collect();
        assert_eq!(pages, (0..200).collect::<Vec<_>>());
        assert_eq!(offsets(100, Layout::Packed)[99], 99 * 64);
    }

    #[test]
    fn spread_functions_share_out_the_sets_of_the_caches() {
        // 1024 sets, as a second-level cache of 1 MiB with 16 ways has them.
        let spread = offsets(4096, Layout::Spread);
        let mut sets: Vec<u32> = spread.iter().map(|offset| offset / 64 % 1024).collect();
        sets.sort_unstable();
        sets.dedup();
        assert!(sets.len() > 900, "{}", sets.len());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_functions_are_called_and_come_back() {
        for layout in [Layout::Packed, Layout::Spread] {
            let functions = Functions::new(64, layout, Pages::Small).expect("memory for code");
            assert!(functions.call_ns(Duration::ZERO) > 0.0);
            let mut called = functions.order.clone();
            called.sort_unstable();
            called.dedup();
            assert_eq!(called, offsets(64, layout), "each is called");
            let once = Functions::each_once(64, layout, Pages::Small).expect("memory for code");
            once.run();
            let mut called = once.order.clone();
            called.sort_unstable();
            assert_eq!(called, offsets(64, layout), "each is called once");
            let found = functions.found(vec![1.0]).expect("smaps");
            assert_eq!((found.functions, found.huge_bytes), (64, 0));
        }
    }
}

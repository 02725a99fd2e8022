//! What is known of the machine without measuring: /proc and /sys say it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::counter::count_instructions;
use crate::cpus::siblings;

/// A cache as the kernel lists it. Under a hypervisor this is what the guest is told.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cache {
    /// 1 is the nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub size_bytes: u64,
    /// The CPUs that share it, as the kernel writes lists.
    pub cpus: String,
}

/// What was read.
#[derive(Debug, Serialize)]
pub struct Facts {
    /// The CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Hardware threads of a core.
    pub threads_per_core: usize,
    /// Nodes that memory is divided into.
    pub numa_nodes: usize,
    /// The caches of the first CPU.
    pub caches: Vec<Cache>,
    /// The kernel's setting of transparent huge pages: `always`, `madvise` or `never`; empty without them.
    pub transparent_huge_pages: String,
    /// How long an idle CPU of a virtual machine polls before it halts, in nanoseconds; none where the kernel's governor of idle
    /// CPUs is not haltpoll.
    pub idle_poll_ns: Option<u64>,
    /// The product that the firmware names, such as a cloud's machine type; empty when it names none.
    pub product: String,
    /// Whether the processor's counters count instructions here.
    pub instruction_counter: bool,
    /// Why not; empty when they do.
    pub instruction_counter_refusal: String,
}

/// All facts; `sys` is /sys.
pub fn read(cpus: Vec<usize>, sys: &Path) -> Facts {
    let system = sys.join("devices/system");
    let first = cpus.first().copied().unwrap_or(0);
    let refusal = count_instructions().err().map(|error| error.to_string());
    Facts {
        threads_per_core: siblings(first, &system).len(),
        numa_nodes: entries(&system.join("node"), "node").max(1),
        caches: caches(&system.join(format!("cpu/cpu{first}/cache"))),
        transparent_huge_pages: chosen(&text(&sys.join("kernel/mm/transparent_hugepage/enabled"))),
        idle_poll_ns: idle_poll_ns(sys),
        product: product(&sys.join("class/dmi/id")),
        instruction_counter: refusal.is_none(),
        instruction_counter_refusal: refusal.unwrap_or_default(),
        cpus,
    }
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// How many entries of a folder are a word and a number.
fn entries(folder: &Path, word: &str) -> usize {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            name.strip_prefix(word)
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .count()
}

fn caches(folder: &Path) -> Vec<Cache> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found: BTreeSet<Cache> = entries
        .filter_map(|entry| {
            let read = |name: &str| text(&entry.path().join(name));
            Some(Cache {
                level: read("level").parse().ok()?,
                kind: read("type"),
                size_bytes: size_bytes(&read("size"))?,
                cpus: read("shared_cpu_list"),
            })
        })
        .collect();
    found.into_iter().collect()
}

/// `48K`, `2M`, as sysfs writes sizes.
fn size_bytes(text: &str) -> Option<u64> {
    let scale = match text.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        _ => 1,
    };
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    Some(digits.parse::<u64>().ok()? * scale)
}

/// The choice in brackets: `always [madvise] never`.
fn chosen(setting: &str) -> String {
    let inner = setting
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or_else(|| setting.to_owned(), |(choice, _)| choice.to_owned())
}

fn idle_poll_ns(sys: &Path) -> Option<u64> {
    let governor = text(&sys.join("devices/system/cpu/cpuidle/current_governor"));
    if governor != "haltpoll" {
        return None;
    }
    let limit = sys.join("module/haltpoll/parameters/guest_halt_poll_ns");
    text(&limit).parse().ok()
}

fn product(folder: &Path) -> String {
    let names = ["sys_vendor", "product_name"].map(|name| text(&folder.join(name)));
    names.join(" ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysfs_is_read_as_the_kernel_writes_it() {
        let sys = tempfile::tempdir().expect("a folder");
        let sys = sys.path();
        let put = |path: &str, text: &str| {
            let file = sys.join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        for (index, level, kind, size) in [
            (0, "1", "Data", "48K"),
            (1, "1", "Instruction", "32K"),
            (3, "3", "Unified", "32768K"),
        ] {
            let folder = format!("devices/system/cpu/cpu2/cache/index{index}");
            put(&format!("{folder}/level"), level);
            put(&format!("{folder}/type"), kind);
            put(&format!("{folder}/size"), size);
            put(&format!("{folder}/shared_cpu_list"), "2-3\n");
        }
        put(
            "devices/system/cpu/cpu2/topology/thread_siblings_list",
            "2-3\n",
        );
        put("devices/system/node/node0/x", "");
        put("devices/system/node/node1/x", "");
        put("devices/system/node/online", "0-1");
        put(
            "kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
        put("devices/system/cpu/cpuidle/current_governor", "haltpoll\n");
        put("module/haltpoll/parameters/guest_halt_poll_ns", "200000\n");
        put("class/dmi/id/sys_vendor", "Some Cloud\n");
        put("class/dmi/id/product_name", "m1.large\n");
        let facts = read(vec![2, 3], sys);
        put("devices/system/cpu/cpuidle/current_governor", "menu\n");
        let of_another_governor = read(vec![2, 3], sys).idle_poll_ns;
        let cache = |level, kind: &str, kib: u64| Cache {
            level,
            kind: kind.to_owned(),
            size_bytes: kib << 10,
            cpus: "2-3".to_owned(),
        };
        assert_eq!(
            facts.caches,
            [
                cache(1, "Data", 48),
                cache(1, "Instruction", 32),
                cache(3, "Unified", 32768)
            ]
        );
        assert_eq!((facts.threads_per_core, facts.numa_nodes), (2, 2));
        assert_eq!(facts.transparent_huge_pages, "madvise");
        assert_eq!(
            (facts.idle_poll_ns, of_another_governor),
            (Some(200_000), None)
        );
        assert_eq!(facts.product, "Some Cloud m1.large");
        assert_eq!(
            facts.instruction_counter,
            facts.instruction_counter_refusal.is_empty()
        );
    }

    #[test]
    fn a_machine_that_tells_nothing_has_empty_facts() {
        let facts = read(vec![0], Path::new("/no/such/folder"));
        assert_eq!(facts.caches, []);
        assert_eq!(facts.idle_poll_ns, None);
        assert_eq!((facts.threads_per_core, facts.numa_nodes), (1, 1));
        assert_eq!(
            (
                facts.transparent_huge_pages.as_str(),
                facts.product.as_str()
            ),
            ("", "")
        );
    }
}

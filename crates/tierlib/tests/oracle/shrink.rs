//! Making a failure smaller.

/// The fewest of these steps that still fail, in order: leaves out ever smaller parts while the rest fails.
pub fn shrink(mut steps: Vec<u64>, fails: impl Fn(&[u64]) -> bool) -> Vec<u64> {
    let mut part = steps.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + part).min(fewer.len()));
            if fails(&fewer) {
                steps = fewer;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    steps
}

#[test]
fn what_is_needed_remains() {
    let needs = |steps: &[u64]| steps.contains(&17) && steps.contains(&9_001);
    assert_eq!(shrink((0..10_000).collect(), needs), [17, 9_001]);
    assert_eq!(shrink((0..10_000).collect(), |_| false).len(), 10_000);
}

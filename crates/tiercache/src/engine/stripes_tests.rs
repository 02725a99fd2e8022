//! Stripes: tests of generation.rs, which shuttle.rs includes as it is.

use std::collections::BTreeSet;

use super::generation::{Generations, Stripe};

#[test]
fn pages_of_an_operation_have_stripes_of_their_own_and_files_begin_at_others() {
    let all = Generations::new(1 << 20);
    let address = |stripe: &Stripe| std::ptr::from_ref(stripe) as usize;
    let one: BTreeSet<usize> = all.stripes(7, 0, 999).map(address).collect();
    assert_eq!(one.len(), 1000);
    let first: BTreeSet<usize> = (0..1000)
        .flat_map(|row| all.stripes(row, 0, 0))
        .map(address)
        .collect();
    // A thousand of 65,536 by chance: seven or eight collide.
    assert!(first.len() > 950, "{}", first.len());
}

#[test]
fn a_stripe_is_quiet_while_no_write_is_under_way() {
    let stripe = Stripe::default();
    assert_eq!(stripe.quiet(), Some(0));
    assert_eq!(stripe.begin(), (1, true));
    assert_eq!(stripe.begin(), (2, false));
    assert_eq!((stripe.quiet(), stripe.ended()), (None, 0));
    stripe.end();
    assert_eq!((stripe.quiet(), stripe.ended()), (None, 1));
    stripe.end();
    assert_eq!(
        (stripe.quiet(), stripe.ended(), stripe.begun()),
        (Some(2), 2, 2)
    );
}

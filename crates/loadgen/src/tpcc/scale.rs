//! How much of everything TPC-C has (clauses 1.2 and 4.3.3 of its specification).

/// Rows of `item`, and of `stock` for each warehouse.
pub(super) const ITEMS: i64 = 100_000;
/// Districts of a warehouse.
pub(super) const DISTRICTS: i64 = 10;
/// Customers of a district; as many orders are loaded.
pub(super) const CUSTOMERS: i64 = 3000;
/// The first of a district's loaded orders that is not delivered.
pub(super) const FIRST_NEW_ORDER: i64 = 2101;
/// Lines of an order, fewest and most.
pub(super) const LINES_MIN: i64 = 5;
/// As above.
pub(super) const LINES_MAX: i64 = 15;
/// An item number that no item has: the last line of an order that will be rolled back.
pub(super) const ITEM_UNUSED: i64 = ITEMS + 1;

//! Every statement of TPC-C: its name, its parameters, and the files that come with the program.

/// The folder of those that all flavours share.
pub(super) const SHARED_FLAVOUR: &str = "both";

/// What a statement is given; the columns that it has to return are in docs/reference/tpcc.md.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [&'static str],
    /// Only the first row of its result is wanted.
    pub(super) first_row: bool,
}

macro_rules! keys {
    ($($key:ident)+) => {
        /// The place of each statement in [`ENTRIES`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub(super) enum Key {
            $($key,)+
        }

        impl Key {
            /// All, in this order.
            pub(super) const ALL: [Self; ENTRIES.len()] = [$(Self::$key,)+];
        }
    };
}

keys! {
    NewOrderCustomer
    NewOrderDistrict
    NewOrderDistrictUpdate
    NewOrderOrderInsert
    NewOrderNewOrderInsert
    NewOrderItem
    NewOrderStock
    NewOrderStockUpdate
    NewOrderStockUpdateRewritten
    NewOrderLineInsert
    NewOrderLineInsertMultirow
    PaymentDistrictUpdate
    PaymentDistrict
    PaymentWarehouseUpdate
    PaymentWarehouse
    PaymentCustomerByLast
    PaymentCustomer
    PaymentCustomerData
    PaymentCustomerUpdate
    PaymentCustomerDataUpdate
    PaymentHistoryInsert
    OrderStatusCustomerByLast
    OrderStatusCustomer
    OrderStatusLastOrder
    OrderStatusLines
    DeliveryOldestNewOrder
    DeliveryNewOrderDelete
    DeliveryOrder
    DeliveryOrderUpdate
    DeliveryLineUpdate
    DeliveryAmountSum
    DeliveryCustomerUpdate
    StockLevelLowStock
}

const fn all(name: &'static str, parameters: &'static [&'static str]) -> Entry {
    Entry {
        name,
        parameters,
        first_row: false,
    }
}

const fn first(name: &'static str, parameters: &'static [&'static str]) -> Entry {
    Entry {
        name,
        parameters,
        first_row: true,
    }
}

const DISTRICT: &[&str] = &["w_id", "d_id"];
const ORDER: &[&str] = &["w_id", "d_id", "o_id"];
const CUSTOMER: &[&str] = &["c_w_id", "c_d_id", "c_id"];
const LAST: &[&str] = &["c_w_id", "c_d_id", "c_last"];
const STOCK: &[&str] = &[
    "supply_w_id",
    "i_id",
    "quantity",
    "ordered",
    "orders",
    "remote",
];
const LINE: &[&str] = &[
    "o_id",
    "d_id",
    "w_id",
    "number",
    "i_id",
    "supply_w_id",
    "quantity",
    "amount",
    "dist_info",
];

/// All statements, by [`Key`].
#[rustfmt::skip]
pub(super) const ENTRIES: [Entry; 33] = [
    all("new_order.customer_select", &["w_id", "d_id", "c_id"]),
    all("new_order.district_select", DISTRICT),
    all("new_order.district_update", DISTRICT),
    all("new_order.order_insert", &["o_id", "d_id", "w_id", "c_id", "entry_d", "ol_cnt", "all_local"]),
    all("new_order.new_order_insert", &["o_id", "d_id", "w_id"]),
    all("new_order.item_select", &["i_id"]),
    all("new_order.stock_select", &["supply_w_id", "i_id"]),
    all("new_order.stock_update", STOCK),
    all("new_order.stock_update_rewritten", STOCK),
    all("new_order.order_line_insert", LINE),
    all("new_order.order_line_insert_multirow", LINE),
    all("payment.district_update", &["amount", "w_id", "d_id"]),
    all("payment.district_select", DISTRICT),
    all("payment.warehouse_update", &["amount", "w_id"]),
    all("payment.warehouse_select", &["w_id"]),
    all("payment.customer_by_last", LAST),
    all("payment.customer_select", CUSTOMER),
    all("payment.customer_data_select", CUSTOMER),
    all("payment.customer_update", &["amount", "c_w_id", "c_d_id", "c_id"]),
    all("payment.customer_data_update", &["amount", "c_data", "c_w_id", "c_d_id", "c_id"]),
    all("payment.history_insert", &["c_id", "c_d_id", "c_w_id", "d_id", "w_id", "date", "amount", "h_data"]),
    all("order_status.customer_by_last", LAST),
    all("order_status.customer_select", CUSTOMER),
    first("order_status.last_order", CUSTOMER),
    all("order_status.order_lines", &["c_w_id", "c_d_id", "o_id"]),
    first("delivery.oldest_new_order", DISTRICT),
    all("delivery.new_order_delete", ORDER),
    all("delivery.order_select", ORDER),
    all("delivery.order_update", &["carrier_id", "w_id", "d_id", "o_id"]),
    all("delivery.order_line_update", &["delivery_d", "w_id", "d_id", "o_id"]),
    all("delivery.amount_sum", ORDER),
    all("delivery.customer_update", &["amount", "w_id", "d_id", "c_id"]),
    all("stock_level.low_stock", &["w_id", "d_id", "threshold"]),
];

/// A file that comes with the program.
pub(super) struct Embedded {
    pub(super) flavour: &'static str,
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! embed {
    ($($flavour:literal: $($name:literal)+;)+) => {
        &[$($(Embedded {
            flavour: $flavour,
            name: $name,
            text: include_str!(concat!("../../statements/", $flavour, "/", $name, ".sql")),
        },)+)+]
    };
}

/// All of them.
pub(super) const EMBEDDED: &[Embedded] = embed! {
    "both":
        "new_order.customer_select" "new_order.district_select" "new_order.district_update" "new_order.order_insert"
        "new_order.new_order_insert" "new_order.stock_update" "new_order.stock_update_rewritten"
        "new_order.order_line_insert" "new_order.order_line_insert_multirow"
        "payment.district_update" "payment.district_select" "payment.warehouse_update" "payment.warehouse_select"
        "payment.customer_by_last" "payment.customer_select" "payment.customer_data_select" "payment.customer_update"
        "payment.customer_data_update" "payment.history_insert"
        "order_status.customer_by_last" "order_status.customer_select" "order_status.order_lines"
        "delivery.new_order_delete" "delivery.order_select" "delivery.order_update" "delivery.order_line_update"
        "delivery.amount_sum" "delivery.customer_update";
    "benchmarksql":
        "new_order.item_select" "new_order.stock_select" "order_status.last_order" "delivery.oldest_new_order"
        "stock_level.low_stock";
    "tuned":
        "new_order.item_select" "new_order.stock_select" "order_status.last_order" "delivery.oldest_new_order"
        "stock_level.low_stock";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_entries_have_the_same_order() {
        assert_eq!(
            ENTRIES[Key::NewOrderLineInsertMultirow as usize].name,
            "new_order.order_line_insert_multirow"
        );
        assert_eq!(
            ENTRIES[Key::PaymentHistoryInsert as usize].name,
            "payment.history_insert"
        );
        assert_eq!(
            ENTRIES[Key::OrderStatusLines as usize].name,
            "order_status.order_lines"
        );
        assert_eq!(
            ENTRIES[Key::StockLevelLowStock as usize].name,
            "stock_level.low_stock"
        );
        assert_eq!(Key::StockLevelLowStock as usize + 1, ENTRIES.len());
    }

    #[test]
    fn every_file_is_embedded() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("statements");
        for flavour in ["both", "benchmarksql", "tuned"] {
            let mut files: Vec<String> = std::fs::read_dir(folder.join(flavour))
                .expect("a flavour's folder")
                .map(|file| {
                    file.expect("a file")
                        .file_name()
                        .to_string_lossy()
                        .replace(".sql", "")
                })
                .collect();
            files.sort();
            let mut embedded: Vec<&str> = EMBEDDED
                .iter()
                .filter(|file| file.flavour == flavour)
                .map(|file| file.name)
                .collect();
            embedded.sort_unstable();
            assert_eq!(files, embedded, "{flavour}");
        }
    }
}

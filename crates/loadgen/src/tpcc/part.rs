//! The parts in which the tables are filled.

/// A part of the tables that is filled at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Item,
    Warehouse(i64),
    District(i64),
    Stock(i64),
    Customer(i64),
    History(i64),
    Order(i64),
    NewOrder(i64),
    OrderLine(i64),
}

impl Part {
    /// All parts, those of a warehouse together.
    pub(super) fn all(warehouses: i64) -> Vec<Self> {
        let of_warehouse = |w_id| {
            [
                Self::OrderLine(w_id),
                Self::Stock(w_id),
                Self::Customer(w_id),
                Self::History(w_id),
                Self::Order(w_id),
                Self::NewOrder(w_id),
                Self::District(w_id),
                Self::Warehouse(w_id),
            ]
        };
        std::iter::once(Self::Item)
            .chain((1..=warehouses).flat_map(of_warehouse))
            .collect()
    }

    /// Its table and columns.
    pub(super) fn table(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Item => ("item", &["i_id", "i_im_id", "i_name", "i_price", "i_data"]),
            Self::Warehouse(_) => (
                "warehouse",
                &[
                    "w_id",
                    "w_name",
                    "w_street_1",
                    "w_street_2",
                    "w_city",
                    "w_state",
                    "w_zip",
                    "w_tax",
                    "w_ytd",
                ],
            ),
            Self::District(_) => (
                "district",
                &[
                    "d_w_id",
                    "d_id",
                    "d_name",
                    "d_street_1",
                    "d_street_2",
                    "d_city",
                    "d_state",
                    "d_zip",
                    "d_tax",
                    "d_ytd",
                    "d_next_o_id",
                ],
            ),
            Self::Stock(_) => (
                "stock",
                &[
                    "s_w_id",
                    "s_i_id",
                    "s_quantity",
                    "s_ytd",
                    "s_order_cnt",
                    "s_remote_cnt",
                    "s_data",
                    "s_dist_01",
                    "s_dist_02",
                    "s_dist_03",
                    "s_dist_04",
                    "s_dist_05",
                    "s_dist_06",
                    "s_dist_07",
                    "s_dist_08",
                    "s_dist_09",
                    "s_dist_10",
                ],
            ),
            Self::Customer(_) => (
                "customer",
                &[
                    "c_w_id",
                    "c_d_id",
                    "c_id",
                    "c_last",
                    "c_middle",
                    "c_first",
                    "c_street_1",
                    "c_street_2",
                    "c_city",
                    "c_state",
                    "c_zip",
                    "c_phone",
                    "c_since",
                    "c_credit",
                    "c_credit_lim",
                    "c_discount",
                    "c_balance",
                    "c_ytd_payment",
                    "c_payment_cnt",
                    "c_delivery_cnt",
                    "c_data",
                ],
            ),
            Self::History(_) => (
                "history",
                &[
                    "hist_id", "h_c_id", "h_c_d_id", "h_c_w_id", "h_d_id", "h_w_id", "h_date",
                    "h_amount", "h_data",
                ],
            ),
            Self::Order(_) => (
                "oorder",
                &[
                    "o_w_id",
                    "o_d_id",
                    "o_id",
                    "o_c_id",
                    "o_entry_d",
                    "o_carrier_id",
                    "o_ol_cnt",
                    "o_all_local",
                ],
            ),
            Self::NewOrder(_) => ("new_order", &["no_w_id", "no_d_id", "no_o_id"]),
            Self::OrderLine(_) => (
                "order_line",
                &[
                    "ol_w_id",
                    "ol_d_id",
                    "ol_o_id",
                    "ol_number",
                    "ol_i_id",
                    "ol_supply_w_id",
                    "ol_delivery_d",
                    "ol_quantity",
                    "ol_amount",
                    "ol_dist_info",
                ],
            ),
        }
    }

    /// The warehouse that it belongs to; items belong to all.
    pub(super) fn warehouse(self) -> Option<i64> {
        match self {
            Self::Item => None,
            Self::Warehouse(w_id)
            | Self::District(w_id)
            | Self::Stock(w_id)
            | Self::Customer(w_id)
            | Self::History(w_id)
            | Self::Order(w_id)
            | Self::NewOrder(w_id)
            | Self::OrderLine(w_id) => Some(w_id),
        }
    }
}

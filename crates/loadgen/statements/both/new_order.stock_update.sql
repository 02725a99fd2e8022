UPDATE stock
   SET s_quantity = :quantity,
       s_ytd = s_ytd + :ordered,
       s_order_cnt = s_order_cnt + :orders,
       s_remote_cnt = s_remote_cnt + :remote
 WHERE s_w_id = :supply_w_id AND s_i_id = :i_id

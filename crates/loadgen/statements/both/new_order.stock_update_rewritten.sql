-- All rows of the order at once. ELSE gives PostgreSQL the type of the parameters.
UPDATE stock
   SET s_quantity = CASE /*each*/ WHEN s_w_id = :supply_w_id AND s_i_id = :i_id THEN :quantity /*end*/ ELSE s_quantity END,
       s_ytd = s_ytd + CASE /*each*/ WHEN s_w_id = :supply_w_id AND s_i_id = :i_id THEN :ordered /*end*/ ELSE 0 END,
       s_order_cnt = s_order_cnt + CASE /*each*/ WHEN s_w_id = :supply_w_id AND s_i_id = :i_id THEN :orders /*end*/ ELSE 0 END,
       s_remote_cnt = s_remote_cnt + CASE /*each*/ WHEN s_w_id = :supply_w_id AND s_i_id = :i_id THEN :remote /*end*/ ELSE 0 END
 WHERE (s_w_id, s_i_id) IN (/*each ,*/ (:supply_w_id, :i_id) /*end*/)

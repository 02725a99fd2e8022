-- Each customer's balance and payments are together what was delivered to them.
SELECT COUNT(*)
  FROM customer
  LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS delivered
               FROM order_line
               JOIN oorder ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
              WHERE ol_delivery_d IS NOT NULL
              GROUP BY o_w_id, o_d_id, o_c_id) AS deliveries
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
 WHERE (c_balance + c_ytd_payment <> COALESCE(delivered, 0)) IS NOT FALSE

-- Each customer's balance is what was delivered to them less what they have paid.
SELECT COUNT(*)
  FROM customer
  LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS delivered
               FROM order_line
               JOIN oorder ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
              WHERE ol_delivery_d IS NOT NULL
              GROUP BY o_w_id, o_d_id, o_c_id) AS deliveries
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
  LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid
               FROM history
              GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS payments
         ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
 WHERE (c_balance <> COALESCE(delivered, 0) - COALESCE(paid, 0)) IS NOT FALSE

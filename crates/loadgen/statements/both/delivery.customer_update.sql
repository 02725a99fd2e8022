UPDATE customer
   SET c_balance = c_balance + :amount,
       c_delivery_cnt = c_delivery_cnt + 1
 WHERE c_w_id = :w_id AND c_d_id = :d_id AND c_id = :c_id

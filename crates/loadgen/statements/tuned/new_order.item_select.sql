-- All items of the order at once; the last column tells which is which.
SELECT i_price, i_name, i_data, i_id
  FROM item
 WHERE i_id IN (/*each ,*/ :i_id /*end*/)

CREATE INDEX customer_idx1 ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE UNIQUE INDEX oorder_idx1 ON oorder (o_w_id, o_d_id, o_carrier_id, o_id);

//! `libupshift_tier.so`.

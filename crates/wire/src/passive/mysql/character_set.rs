//! Character sets by the number that a client's login has: that of a collation, of which it says the lowest eight bits.

/// The character set of a collation, as MySQL and MariaDB name it; none of a number that neither has.
#[must_use]
pub fn character_set(collation: u8) -> Option<&'static str> {
    Some(match collation {
        32 | 64 => "armscii8",
        11 | 65 => "ascii",
        1 | 84 => "big5",
        63 => "binary",
        26 | 34 | 44 | 66 | 99 => "cp1250",
        14 | 23 | 50..=52 => "cp1251",
        57 | 67 => "cp1256",
        29 | 58 | 59 => "cp1257",
        4 | 80 => "cp850",
        40 | 81 => "cp852",
        36 | 68 => "cp866",
        95 | 96 => "cp932",
        3 | 69 => "dec8",
        97 | 98 => "eucjpms",
        19 | 85 => "euckr",
        // MySQL's alone.
        248..=250 => "gb18030",
        24 | 86 => "gb2312",
        28 | 87 => "gbk",
        92 | 93 => "geostd8",
        25 | 70 => "greek",
        16 | 71 => "hebrew",
        6 | 72 => "hp8",
        37 | 73 => "keybcs2",
        7 | 74 => "koi8r",
        22 | 75 => "koi8u",
        5 | 8 | 15 | 31 | 47..=49 | 94 => "latin1",
        2 | 9 | 21 | 27 | 77 => "latin2",
        30 | 78 => "latin5",
        20 | 41 | 42 | 79 => "latin7",
        38 | 43 => "macce",
        39 | 53 => "macroman",
        13 | 88 => "sjis",
        10 | 82 => "swe7",
        18 | 89 => "tis620",
        35 | 90 | 128..=151 | 159 => "ucs2",
        12 | 91 => "ujis",
        54 | 55 | 101..=124 => "utf16",
        56 | 62 => "utf16le",
        60 | 61 | 160..=183 => "utf32",
        33 | 76 | 83 | 192..=215 | 223 => "utf8mb3",
        // 255 is MySQL's utf8mb4_0900_ai_ci.
        45 | 46 | 224..=247 | 255 => "utf8mb4",
        _ => return None,
    })
}

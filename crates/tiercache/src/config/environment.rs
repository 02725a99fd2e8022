//! The configuration as the preloaded library gets it: from environment variables.

use std::ffi::OsString;
use std::str::FromStr;

use super::{Config, ConfigError, parse_size_bytes};

impl Config {
    /// Reads UPSHIFT_TIER_SIZE, _PAGE_SIZE, _MEDIUM, _MODE, _PROMOTION, _SEQUENTIAL_CUTOFF, _READ_AHEAD,
    /// _RULES, _AUDIT, _FORMAT and _STATUS; what is not set keeps its default. Errors name the variable.
    pub fn from_environment() -> Result<Self, ConfigError> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// As `from_environment`, with the variables from anywhere.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let text = |name: &str| -> Result<Option<String>, ConfigError> {
            match variable(name).map(OsString::into_string) {
                None => Ok(None),
                Some(Ok(text)) => Ok(Some(text)),
                Some(Err(raw)) => Err(ConfigError::new(
                    name,
                    &raw.to_string_lossy(),
                    "write it in UTF-8",
                )),
            }
        };
        read(
            text,
            "UPSHIFT_TIER_SIZE",
            parse_size_bytes,
            &mut config.size_bytes,
        )?;
        read(
            text,
            "UPSHIFT_TIER_PAGE_SIZE",
            |value| parse_size_bytes(value).map(|bytes| bytes as usize),
            &mut config.page_size_bytes,
        )?;
        read(
            text,
            "UPSHIFT_TIER_MEDIUM",
            FromStr::from_str,
            &mut config.medium,
        )?;
        read(
            text,
            "UPSHIFT_TIER_MODE",
            FromStr::from_str,
            &mut config.mode,
        )?;
        read(
            text,
            "UPSHIFT_TIER_PROMOTION",
            FromStr::from_str,
            &mut config.promotion,
        )?;
        read(
            text,
            "UPSHIFT_TIER_SEQUENTIAL_CUTOFF",
            parse_size_bytes,
            &mut config.sequential_cutoff_bytes,
        )?;
        read(
            text,
            "UPSHIFT_TIER_READ_AHEAD",
            parse_switch,
            &mut config.admit_read_ahead,
        )?;
        read(
            text,
            "UPSHIFT_TIER_RULES",
            FromStr::from_str,
            &mut config.rules,
        )?;
        read(
            text,
            "UPSHIFT_TIER_AUDIT",
            parse_count,
            &mut config.audit_every,
        )?;
        read(
            text,
            "UPSHIFT_TIER_FORMAT",
            parse_switch,
            &mut config.format,
        )?;
        config.status_path = variable("UPSHIFT_TIER_STATUS")
            .filter(|path| !path.is_empty())
            .map(Into::into);
        config.validate()?;
        Ok(config)
    }
}

fn read<T>(
    text: impl Fn(&str) -> Result<Option<String>, ConfigError>,
    name: &str,
    parse: impl Fn(&str) -> Result<T, ConfigError>,
    setting: &mut T,
) -> Result<(), ConfigError> {
    if let Some(value) = text(name)?.filter(|value| !value.is_empty()) {
        *setting = parse(&value).map_err(|error| ConfigError {
            setting: name.into(),
            ..error
        })?;
    }
    Ok(())
}

fn parse_count(text: &str) -> Result<u32, ConfigError> {
    let hint = "use a whole number; 0 turns it off";
    text.parse()
        .map_err(|_| ConfigError::new("count", text, hint))
}

fn parse_switch(text: &str) -> Result<bool, ConfigError> {
    match text {
        "1" | "on" | "yes" | "true" => Ok(true),
        "0" | "off" | "no" | "false" => Ok(false),
        _ => Err(ConfigError::new("switch", text, "use on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, MediumChoice, Mode, Promotion};

    fn with(pairs: &[(&str, &str)]) -> Result<Config, super::ConfigError> {
        Config::from_variables(|name| {
            pairs
                .iter()
                .find(|(key, _)| name == format!("UPSHIFT_TIER_{key}"))
                .map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn every_variable_is_read() {
        let config = with(&[
            ("SIZE", "4G"),
            ("PAGE_SIZE", "8K"),
            ("MEDIUM", "direct:/m/x"),
            ("MODE", "write-around"),
            ("PROMOTION", "nhit:2"),
            ("SEQUENTIAL_CUTOFF", "0"),
            ("READ_AHEAD", "on"),
            ("RULES", "skip=x"),
            ("AUDIT", "500"),
            ("FORMAT", "on"),
            ("STATUS", "/s"),
        ])
        .expect("config");
        assert_eq!(
            (config.size_bytes, config.page_size_bytes),
            (4 << 30, 8 << 10)
        );
        assert_eq!(config.medium, MediumChoice::Direct("/m/x".into()));
        assert_eq!(
            (config.mode, config.promotion),
            (Mode::WriteAround, Promotion::NHit(2))
        );
        assert_eq!(
            (config.sequential_cutoff_bytes, config.admit_read_ahead),
            (0, true)
        );
        assert_eq!((config.audit_every, config.format), (500, true));
        assert_eq!(config.rules.0[0].pattern, "x");
        assert_eq!(config.status_path, Some("/s".into()));
        assert_eq!(with(&[]).expect("defaults"), Config::default());
    }

    #[test]
    fn a_bad_value_names_its_variable() {
        for (key, value) in [
            ("SIZE", "many"),
            ("SIZE", "1K"),
            ("PAGE_SIZE", "12K"),
            ("PAGE_SIZE", "128K"),
            ("MEDIUM", "optane"),
            ("MEDIUM", "file:"),
            ("MODE", "write-back"),
            ("PROMOTION", "nhit:1"),
            ("READ_AHEAD", "maybe"),
            ("AUDIT", "-1"),
            ("FORMAT", "maybe"),
            ("RULES", "x"),
        ] {
            let error = with(&[(key, value)]).expect_err(value);
            assert!(!error.hint.is_empty());
        }
        assert_eq!(
            with(&[("MODE", "x")]).expect_err("mode").setting,
            "UPSHIFT_TIER_MODE"
        );
    }
}

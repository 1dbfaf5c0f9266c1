//! The user's name, for `human:NAME`.

/// The name of the current user, reduced to the characters of an actor's name.
pub fn user_name(env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let uid = rustix::process::getuid().as_raw();
    // The account comes first, since anybody can set the variables. They are used where accounts are not in this file.
    let account = std::fs::read_to_string("/etc/passwd").ok().and_then(|accounts| name_of(&accounts, uid));
    let name = account.or_else(|| env("USER")).or_else(|| env("LOGNAME"))?;
    let name: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+') { c } else { '-' })
        .take(50)
        .collect();
    Some(name).filter(|name| !name.is_empty())
}

fn name_of(accounts: &str, uid: u32) -> Option<String> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_by_its_user_id() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(name_of(accounts, 1000).as_deref(), Some("alice"));
        assert_eq!(name_of(accounts, 7), None);
    }
}

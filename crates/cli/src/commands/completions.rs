use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::completing;
use crate::context::Context;

/// Print a completion script for your shell
///
/// In bash, zsh and fish it also completes task ids, states, actors and configuration keys: it asks onus, which only reads.
///
/// Example: onus completions bash > ~/.local/share/bash-completion/completions/onus
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Your shell
    shell: Shell,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let script = match args.shell {
        Shell::Bash => BASH.replace("COMPLETE", completing::NAME),
        Shell::Zsh => ZSH.replace("COMPLETE", completing::NAME),
        Shell::Fish => FISH.replace("COMPLETE", completing::NAME),
        shell => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "onus", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    context.out.answer("script", script.trim_end());
    Ok(())
}

/// Bash breaks words at colons and equals signs, so whatever is before the last of them is cut off each offer.
const BASH: &str = r#"_onus() {
    local line head words
    read -ra words <<< "${COMP_LINE:0:COMP_POINT}"
    [[ "${COMP_LINE:COMP_POINT-1:1}" == [[:space:]] ]] && words+=("")
    head="${words[-1]}"
    head="${head%"${head##*[:=]}"}"
    COMPREPLY=()
    while IFS= read -r line; do
        line="${line%%$'\t'*}"
        COMPREPLY+=("${line#"$head"}")
    done < <("${words[0]}" COMPLETE "${words[@]:1}" 2> /dev/null)
}
complete -o default -o bashdefault -F _onus onus
"#;

const ZSH: &str = r#"#compdef onus
_onus() {
    local line
    local -a values shown
    while IFS= read -r line; do
        values+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done < <("${words[1]}" COMPLETE "${(@)words[2,CURRENT]}" 2> /dev/null)
    if (( $#values )); then
        compadd -l -d shown -a values
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_onus" ]; then
    _onus "$@"
else
    compdef _onus onus
fi
"#;

const FISH: &str = r#"function __onus_offers
    set -l words (commandline -opc)
    onus COMPLETE $words[2..] (commandline -ct) 2> /dev/null
end
complete -c onus -f -n 'test (count (__onus_offers)) -gt 0' -a '(__onus_offers)'
"#;

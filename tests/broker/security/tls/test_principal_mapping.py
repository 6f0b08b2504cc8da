"""`ssl.principal.mapping.rules` (KIP-371): the expected names and messages are those of Kafka's SslPrincipalMapper."""

import time

import pytest

from broker.security.tls.principal_mapping import InvalidRule, NoMatchingRule, PrincipalMapping

DUKE = "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"
EXAMPLE = ", ".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (EXAMPLE, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (EXAMPLE, DUKE, "duke@sme"),
        (EXAMPLE, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (EXAMPLE, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (EXAMPLE, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ("DEFAULT", DUKE, DUKE),
        (",, ,DEFAULT,,", DUKE, DUKE),
        ("RULE:^CN=(.*?),.*$/$1@$4/", DUKE, "Duke@$4"),
        ("RULE:^CN=(.*?),.*$/$12/", DUKE, "Duke2"),
        ("RULE:^CN=(.*?),.*$/$01/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),.*$/$0x/", DUKE, f"{DUKE}x"),
        (r"RULE:^CN=(.*?),.*$/\$1\/x/", DUKE, "$1/x"),
        ("RULE:(.*)/x$1y/", DUKE, f"x{DUKE}yxy"),
        ("RULE:^CN=(?<name>.*?),.*$/$1/U", DUKE, "DUKE"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
    ],
)
def test_first_rule_that_matches_the_whole_name_counts(rules: str, name: str, expected: str) -> None:
    assert PrincipalMapping(rules).short_name(name) == expected


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("RULE:^CN=(.*?),.*$/$1/", "CN=Jürgen,O=ß", "Jürgen"),
        ("RULE:^CN=([^,]+)$/$1/U", "CN=ü", "Ü"),
        ("RULE:^CN=(ü)$/$1/", "CN=ü", "ü"),
        (r"RULE:^CN=(\w+),O=\1$/$1/", "CN=a,O=a", "a"),
        ("RULE:^CN=(?=d)(.*)$/$1/", "CN=duke", "duke"),
    ],
)
def test_names_beyond_ascii_and_all_of_pythons_syntax_are_matched(rules: str, name: str, expected: str) -> None:
    assert PrincipalMapping(rules).short_name(name) == expected


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (EXAMPLE, "CN=a" + ",OU=" * 250 + ",O=" * 250 + ",L=" * 250 + ",ST=" * 250 + "ü", "A"),
        ("RULE:^CN=(([a-z]+)*),OU=x$/$1/,DEFAULT", "CN=" + "a" * 4_000, "CN=" + "a" * 4_000),
    ],
)
def test_name_of_a_certificate_cannot_hold_the_node_by_backtracking(rules: str, name: str, expected: str) -> None:
    began = time.process_time()
    assert PrincipalMapping(rules).short_name(name) == expected
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("default", "Invalid rule: `default`, unmatched substring: `default`"),
        ("DEFAULT/L", "Invalid rule: `DEFAULT/L`, unmatched substring: `/L`"),
        (
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
            "Invalid rule: `RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U`, unmatched substring: `/U`",
        ),
        ("RULE:^CN=(.*?)$/L", "Invalid rule: `RULE:^CN=(.*?)$/L`, unmatched substring: `RULE:^CN=(.*?)$/L`"),
        ("RULE:^CN=(/x/", "Invalid rule: `RULE:^CN=(/x/`: missing ), unterminated subpattern at position 4"),
    ],
)
def test_rule_that_cannot_be_read_is_refused(rules: str, message: str) -> None:
    with pytest.raises(InvalidRule) as raised:
        PrincipalMapping(rules)
    assert str(raised.value) == message


def test_name_without_a_matching_rule_is_refused() -> None:
    with pytest.raises(NoMatchingRule) as raised:
        PrincipalMapping("RULE:^CN=missing$/x/").short_name(DUKE)
    assert str(raised.value) == f"No rules apply to {DUKE}, rules [RULE:^CN=missing$/x]"

# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Session lines of PAM as distributions bring them: Debian 12, Ubuntu 24.04, RHEL 9 with authselect's profile
sssd, and SUSE. In each the limits reach every login."""

from __future__ import annotations

#: pam-auth-update writes the first three lines of each common-session
_BLOCK = """\
session\t[default=1]\t\t\tpam_permit.so
session\trequisite\t\t\tpam_deny.so
session\trequired\t\t\tpam_permit.so
"""
_SELINUX = "session [success=ok ignore=ignore module_unknown=ignore default=bad] pam_selinux.so {}\n"
_CLOSE, _OPEN = _SELINUX.format("close"), _SELINUX.format("open")
_ENV = """\
session       required   pam_env.so readenv=1
session       required   pam_env.so readenv=1 envfile=/etc/default/locale
"""

DEBIAN = {
    "common-auth": "auth\t[success=1 default=ignore]\tpam_unix.so nullok\nauth\trequisite\tpam_deny.so\n",
    "common-account": "account\t[success=1 new_authtok_reqd=done default=ignore]\tpam_unix.so\n",
    "common-password": "password\t[success=1 default=ignore]\tpam_unix.so obscure\n",
    "common-session": f"# here are the per-package modules (the \"Primary\" block)\n{_BLOCK}"
    "session\trequired\tpam_unix.so \nsession\toptional\tpam_systemd.so \n",
    "common-session-noninteractive": f"{_BLOCK}session\trequired\tpam_unix.so \n",
    "other": "@include common-auth\n@include common-account\n@include common-session\n",
    "sshd": "@include common-auth\naccount    required     pam_nologin.so\n@include common-account\n"
    f"{_CLOSE}session    required     pam_loginuid.so\nsession    optional     pam_keyinit.so force revoke\n"
    "@include common-session\nsession    optional     pam_motd.so  motd=/run/motd.dynamic\n"
    "session    optional     pam_motd.so noupdate\nsession    optional     pam_mail.so standard noenv # [1]\n"
    "session    required     pam_limits.so\nsession    required     pam_env.so # [1]\n"
    f"{_OPEN}@include common-password\n",
    "login": f"auth       optional   pam_faildelay.so  delay=3000000\n{_CLOSE}"
    f"session    required     pam_loginuid.so\n{_OPEN}{_ENV}@include common-auth\n"
    "session    required   pam_limits.so\nsession    optional   pam_lastlog.so\n@include common-account\n"
    "@include common-session\n@include common-password\n",
    "cron": "@include common-auth\nsession    required     pam_loginuid.so\n"
    "session       required   pam_env.so\n"
    "@include common-account\n@include common-session-noninteractive\nsession    required   pam_limits.so\n",
    "su": f"auth       sufficient pam_rootok.so\n{_ENV}session    optional   pam_mail.so nopen\n"
    "session    required   pam_limits.so\n@include common-auth\n@include common-account\n"
    "@include common-session\n",
    "su-l": "session    optional     pam_keyinit.so force revoke\n@include su\n",
    "sudo": "session    required   pam_limits.so\n@include common-auth\n@include common-account\n"
    "@include common-session-noninteractive\n",
    "systemd-user": f"@include common-account\n{_CLOSE}{_OPEN}session  required pam_loginuid.so\n"
    "session  required pam_limits.so\n@include common-session-noninteractive\n"
    "session optional pam_systemd.so\n",
}  # fmt: skip

#: As Debian, with what its packages and sssd add to the interactive sessions
UBUNTU = {
    **DEBIAN,
    "common-session": f"{_BLOCK}session optional\t\t\tpam_umask.so\nsession\trequired\tpam_unix.so \n"
    "session\toptional\t\t\tpam_sss.so \nsession\toptional\tpam_systemd.so \n"
    "session\toptional\t\t\tpam_mkhomedir.so \n",
}

_AUTHSELECT = """\
session     optional                                     pam_keyinit.so revoke
session     required                                     pam_limits.so
-session    optional                                     pam_systemd.so
session     optional                                     pam_oddjob_mkhomedir.so
session     [success=1 default=ignore]                   pam_succeed_if.so service in crond quiet use_uid
session     required                                     pam_unix.so
session     optional                                     pam_sss.so
"""
RHEL = {
    "system-auth": _AUTHSELECT,
    "password-auth": _AUTHSELECT,
    "postlogin": """\
session     optional                   pam_umask.so silent
session     [success=1 default=ignore] pam_succeed_if.so service !~ gdm* service !~ su* quiet
session     [default=1]                pam_lastlog.so nowtmp showfailed
session     optional                   pam_lastlog.so silent noupdate showfailed
""",
    "other": "auth required pam_deny.so\nsession     required       pam_deny.so\n",
    "sshd": """\
session    required     pam_selinux.so close
session    required     pam_loginuid.so
session    required     pam_selinux.so open env_params
session    required     pam_namespace.so
session    optional     pam_keyinit.so force revoke
session    optional     pam_motd.so
session    include      password-auth
session    include      postlogin
""",
    "login": """\
session    required     pam_selinux.so close
session    required     pam_loginuid.so
session    required     pam_selinux.so open
session    required     pam_namespace.so
session    optional     pam_keyinit.so force revoke
session    include      system-auth
session    include      postlogin
-session   optional     pam_ck_connector.so
""",
    "crond": "session    required   pam_loginuid.so\nsession    include    password-auth\n",
    "su": "session\t\tinclude\t\tsystem-auth\nsession\t\tinclude\t\tpostlogin\n"
    "session\t\toptional\tpam_xauth.so\n",
    "su-l": "session\t\toptional\tpam_keyinit.so force revoke\nsession\t\tinclude\t\tsu\n",
    "sudo": "session    optional     pam_keyinit.so revoke\nsession    include      system-auth\n",
    "systemd-user": """\
session  required pam_selinux.so close
session  required pam_selinux.so nottys open
session  required pam_loginuid.so
session  optional pam_keyinit.so force revoke
session  required pam_namespace.so
session  include system-auth
""",
}  # fmt: skip

SUSE = {
    "common-session": """\
session\toptional\tpam_systemd.so
session\trequired\tpam_limits.so
session\trequired\tpam_unix.so\ttry_first_pass
session\toptional\tpam_sss.so
session\toptional\tpam_umask.so
session\toptional\tpam_env.so
""",
    "/usr/lib/pam.d/sshd": "session  required       pam_loginuid.so\nsession  include        common-session\n"
    "session  optional       pam_keyinit.so revoke force\nsession  include        postlogin-session\n",
    "/usr/lib/pam.d/postlogin-session": "session  optional  pam_lastlog2.so silent\n",
    "/usr/lib/pam.d/other": "session  include   common-session\n",
    "/usr/lib/pam.d/login": "session  required       pam_loginuid.so\n"
    "session  include   common-session\nsession  optional       pam_mail.so standard\n",
    "/usr/lib/pam.d/crond": "session  required       pam_loginuid.so\nsession  include  common-session\n",
    "/usr/lib/pam.d/systemd-user": "session  required pam_loginuid.so\nsession  include  common-session\n",
}  # fmt: skip

ALL = {"debian": DEBIAN, "ubuntu": UBUNTU, "rhel": RHEL, "suse": SUSE}

/* SPDX-FileCopyrightText: mlnode.tuning contributors
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What data center bridging adds to struct netdevsim.
 */
#ifndef MLNODE_LAB_DCB_H
#define MLNODE_LAB_DCB_H

#include <net/dcbnl.h>

struct nsim_dcb {
	struct ieee_pfc pfc;
	struct ieee_ets ets;
	struct ieee_maxrate maxrate;
	struct dcbnl_buffer buffer;
};

extern const struct dcbnl_rtnl_ops nsim_dcbnl_ops;

#endif

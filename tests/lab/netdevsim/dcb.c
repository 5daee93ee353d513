/* SPDX-FileCopyrightText: mlnode.tuning contributors
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Data center bridging for netdevsim: keeps what it is told and gives it back, as a NIC does that is asked over
 * dcbnl. Application priorities are kept by the kernel itself.
 */
#include <linux/dcbnl.h>

#include "netdevsim.h"

#define NSIM_DCB_CLASSES 8
#define NSIM_DCB_BUFFER (256 * 1024)
#define NSIM_DCBX (DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE)

static struct nsim_dcb *nsim_dcb(struct net_device *dev)
{
	return &((struct netdevsim *)netdev_priv(dev))->dcb;
}

static int nsim_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = nsim_dcb(dev)->pfc;
	pfc->pfc_cap = NSIM_DCB_CLASSES;
	return 0;
}

static int nsim_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	nsim_dcb(dev)->pfc = *pfc;
	return 0;
}

static int nsim_getets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = nsim_dcb(dev)->ets;
	ets->ets_cap = NSIM_DCB_CLASSES;
	return 0;
}

static int nsim_setets(struct net_device *dev, struct ieee_ets *ets)
{
	nsim_dcb(dev)->ets = *ets;
	return 0;
}

static int nsim_getmaxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	*maxrate = nsim_dcb(dev)->maxrate;
	return 0;
}

static int nsim_setmaxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	nsim_dcb(dev)->maxrate = *maxrate;
	return 0;
}

static int nsim_getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = nsim_dcb(dev)->buffer;
	buffer->total_size = NSIM_DCB_BUFFER;
	return 0;
}

static int nsim_setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	nsim_dcb(dev)->buffer = *buffer;
	return 0;
}

static u8 nsim_getdcbx(struct net_device *dev)
{
	return NSIM_DCBX;
}

/* Non-zero is a refusal: there is no firmware that could take over. */
static u8 nsim_setdcbx(struct net_device *dev, u8 mode)
{
	return mode != NSIM_DCBX;
}

const struct dcbnl_rtnl_ops nsim_dcbnl_ops = {
	.ieee_getpfc = nsim_getpfc,
	.ieee_setpfc = nsim_setpfc,
	.ieee_getets = nsim_getets,
	.ieee_setets = nsim_setets,
	.ieee_getmaxrate = nsim_getmaxrate,
	.ieee_setmaxrate = nsim_setmaxrate,
	.dcbnl_getbuffer = nsim_getbuffer,
	.dcbnl_setbuffer = nsim_setbuffer,
	.ieee_setapp = dcb_ieee_setapp,
	.ieee_delapp = dcb_ieee_delapp,
	.getdcbx = nsim_getdcbx,
	.setdcbx = nsim_setdcbx,
};

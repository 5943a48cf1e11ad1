package loadgen

const sysSchedSetattr = 274

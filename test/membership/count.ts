/**
 * Number and first seed of the schedules, from PEERGRAD_SCHEDULES and PEERGRAD_SCHEDULES_FROM. This
 * plays a failing one alone: PEERGRAD_SCHEDULES=1 PEERGRAD_SCHEDULES_FROM=<its seed> npx vitest run
 * --project node test/membership
 */
export const SCHEDULES = Number(process.env['PEERGRAD_SCHEDULES'] ?? 100_000);
export const FROM = Number(process.env['PEERGRAD_SCHEDULES_FROM'] ?? 0);

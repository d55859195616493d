/**
 * The schedules to play: PEERGRAD_SCHEDULES of them, from the seed PEERGRAD_SCHEDULES_FROM on. A
 * failing one is played alone by PEERGRAD_SCHEDULES=1 PEERGRAD_SCHEDULES_FROM=<its seed> npx vitest
 * run --project node test/membership
 */
export const SCHEDULES = Number(process.env['PEERGRAD_SCHEDULES'] ?? 100_000);
export const FROM = Number(process.env['PEERGRAD_SCHEDULES_FROM'] ?? 0);

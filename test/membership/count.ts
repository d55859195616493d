/**
 * Number of schedules and seed of the first one, from PEERGRAD_SCHEDULES and
 * PEERGRAD_SCHEDULES_FROM. This command plays only the failing schedule of a seed:
 *
 * PEERGRAD_SCHEDULES=1 PEERGRAD_SCHEDULES_FROM=<seed> npx vitest run --project node test/membership
 */
export const SCHEDULES = Number(process.env['PEERGRAD_SCHEDULES'] ?? 20_000);
export const FROM = Number(process.env['PEERGRAD_SCHEDULES_FROM'] ?? 0);

import type { Words } from '../en/index.ts';

export const run: Words['run'] = {};

import type { Words } from '../en/index.ts';

export const state: Words['state'] = {};

import type { Words } from '../en/index.ts';

export const join: Words['join'] = {};

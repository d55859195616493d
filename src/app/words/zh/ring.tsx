import type { Words } from '../en/index.ts';

export const ring: Words['ring'] = {};

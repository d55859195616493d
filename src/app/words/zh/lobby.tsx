import type { Words } from '../en/index.ts';

export const lobby: Words['lobby'] = {};

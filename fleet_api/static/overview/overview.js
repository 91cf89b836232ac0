// The first view: the fleet for administrators, the own project for all others.

import { isAdministrator } from "../base/session.js";
import { Fleet } from "./fleet.js";
import { Project } from "./project.js";

export const open = (view) => (isAdministrator() ? new Fleet(view) : new Project(view));

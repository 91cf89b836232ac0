# One image with all of fleet's commands; say which to run.
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/fleet && /opt/fleet/bin/pip install --no-cache-dir -c constraints.txt '.[postgresql,mariadb]'

FROM python:3.12-slim-bookworm
RUN useradd --system --create-home --home-dir /var/lib/fleet fleet && mkdir -p /etc/fleet
COPY --from=build /opt/fleet /opt/fleet
ENV PATH=/opt/fleet/bin:$PATH FLEET_CONFIG_FILE=/etc/fleet/fleet.conf
USER fleet
WORKDIR /var/lib/fleet
CMD ["fleet", "help"]
